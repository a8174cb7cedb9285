// SPDX-License-Identifier: Apache-2.0

//go:build linux

package meeting

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"purerdma/internal/vmtest"
)

// GIDIndex returns the index of a host's RoCE v2 address in the table of its device's first port,
// as programs of rdma-core expect it. It needs no provider of the device.
func GIDIndex(t *testing.T, h vmtest.Host, addr netip.Addr) string {
	t.Helper()
	port := filepath.Join("/sys/class/infiniband", h.Device, "ports/1")
	entries, err := os.ReadDir(filepath.Join(port, "gids"))
	if err != nil {
		t.Fatalf("os.ReadDir: %v", err)
	}
	for _, e := range entries {
		gid, err := os.ReadFile(filepath.Join(port, "gids", e.Name()))
		if err != nil {
			continue
		}
		// An unused entry has no type.
		kind, err := os.ReadFile(filepath.Join(port, "gid_attrs/types", e.Name()))
		if err != nil || strings.TrimSpace(string(kind)) != "RoCE v2" {
			continue
		}
		if a, err := netip.ParseAddr(strings.TrimSpace(string(gid))); err == nil && a.Unmap() == addr.Unmap() {
			return e.Name()
		}
	}
	t.Fatalf("%s has no RoCE v2 address %v", h.Device, addr)
	return ""
}
