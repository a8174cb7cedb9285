// SPDX-License-Identifier: Apache-2.0

//go:build linux

package wire

import (
	"strings"
	"testing"

	"purerdma/internal/vmtest"
)

// TestECE compares the options of enhanced connection establishment with librdmacm and libmlx5.
// It covers the options of the request, of the response, and of the devices. It runs on all
// drivers.
func TestECE(t *testing.T) {
	c, g := recordRpings(t)
	vendor, modify := "00000000", []string(nil)
	if vmtest.Driver() == "mlx5" {
		vendor, modify = "b3150000", []string{"EX_CMD_MODIFY_QP"}
	}
	for _, side := range []struct {
		name, command string
		theirs, ours  map[string][]form
	}{
		{"client", "UcmConnect", c.client, g.client},
		{"server", "UcmAccept", c.server, g.server},
	} {
		t.Run(side.name, func(t *testing.T) {
			theirs, ours := eceOf(side.theirs), eceOf(side.ours)
			check(t, "rping", theirs, ours, append(modify, side.command)...)
			for key, forms := range ours {
				if strings.HasSuffix(key, side.command) && (len(forms) != 1 || forms[0]["ECE.VendorID"] != vendor) {
					t.Errorf("%s = %v, want vendor %s", key, forms, vendor)
				}
			}
		})
	}
}

// eceOf returns the commands with the options. These are CONNECT and ACCEPT without their other
// fields, and MODIFY_QP with data of the driver.
func eceOf(all map[string][]form) map[string][]form {
	some := map[string][]form{}
	for key, forms := range all {
		switch {
		case strings.HasSuffix(key, "EX_CMD_MODIFY_QP"):
			some[key] = forms
		case strings.HasSuffix(key, "UcmConnect"), strings.HasSuffix(key, "UcmAccept"):
			for _, f := range forms {
				some[key] = append(some[key], form{"ECE.VendorID": f["ECE.VendorID"], "ECE.AttrMod": f["ECE.AttrMod"]})
			}
		}
	}
	return some
}
