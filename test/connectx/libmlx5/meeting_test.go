// SPDX-License-Identifier: Apache-2.0

//go:build linux

package libmlx5

import (
	"net/netip"
	"strconv"
	"testing"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

// gidIndex returns the index of a host's RoCE v2 address in its table of GIDs.
func gidIndex(t *testing.T, h vmtest.Host, addr netip.Addr) string {
	t.Helper()
	dev, err := verbs.DefaultHost().Open(h.Device)
	if err != nil {
		t.Fatalf("verbs.DefaultHost().Open: %v", err)
	}
	defer dev.Close()
	g, err := dev.GIDFor(1, addr)
	if err != nil {
		t.Fatalf("dev.GIDFor: %v", err)
	}
	return strconv.Itoa(int(g.Index))
}
