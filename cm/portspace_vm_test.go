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

// TestPortSpaceIB: connections of the port space for InfiniBand, which IP addresses
// may have, too.
func TestPortSpaceIB(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	r := rigOn(t, hosts[0], hosts[1], cm.IDConfig{PortSpace: cm.PortSpaceIB, QPType: verbs.RC})
	server, client := r.connected()
	r.exchange(client, server)
	if client.PortSpace() != cm.PortSpaceIB || server.PortSpace() != cm.PortSpaceIB || server.QPType() != verbs.RC {
		t.Errorf("the port spaces are %v and %v", client.PortSpace(), server.PortSpace())
	}
}

// TestPortSpaceIPoIB: the kernel has it for interfaces of IP over InfiniBand alone,
// and the ID says so and can be closed.
func TestPortSpaceIPoIB(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	id, err := channel(t).NewID(cm.IDConfig{PortSpace: cm.PortSpaceIPoIB})
	if err != nil {
		t.Fatalf("NewID: %v", err)
	}
	if id.QPType() != verbs.UD {
		t.Errorf("its QPs are %v", id.QPType())
	}
	err = id.Bind(cm.AddrFrom(netip.AddrPortFrom(hosts[0].IPv4, 0)))
	wantError(t, err, "bind", syscall.EINVAL, hosts[0].IPv4.String())
	if id.State() != cm.StateIdle {
		t.Errorf("the ID is %v", id.State())
	}
}
