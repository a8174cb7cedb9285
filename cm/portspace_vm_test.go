// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"net/netip"
	"syscall"
	"testing"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestPortSpaceIB connects in the port space for InfiniBand, which also supports IP addresses.
func TestPortSpaceIB(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	r := rigOn(t, hosts[0], hosts[1], cm.IDConfig{PortSpace: cm.PortSpaceIB, QPType: verbs.RC})
	server, client := r.connected()
	r.exchange(client, server)
	if client.PortSpace() != cm.PortSpaceIB || server.PortSpace() != cm.PortSpaceIB || server.QPType() != verbs.RC {
		t.Errorf("PortSpace() = %v, %v with QP type %v, want IB and RC", client.PortSpace(), server.PortSpace(), server.QPType())
	}
}

// TestPortSpaceIPoIB checks that Bind in the port space IPoIB fails, and that the ID can be
// closed. The kernel has this port space only for interfaces of IP over InfiniBand.
func TestPortSpaceIPoIB(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	id, err := channel(t).NewID(cm.IDConfig{PortSpace: cm.PortSpaceIPoIB})
	if err != nil {
		t.Fatalf("NewID: %v", err)
	}
	if id.QPType() != verbs.UD {
		t.Errorf("QPType() = %v, want UD", id.QPType())
	}
	err = id.Bind(cm.AddrFrom(netip.AddrPortFrom(hosts[0].IPv4, 0)))
	wantError(t, err, "bind", syscall.EINVAL, hosts[0].IPv4.String())
	if id.State() != cm.StateIdle {
		t.Errorf("State() = %v, want idle", id.State())
	}
}
