// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// TestGIDOfADevice is how far addresses of InfiniBand lead on RoCE: the kernel takes a
// GID of a port for a destination, but to bind to it wants a port of InfiniBand, and
// makes no route. iWARP's GIDs are not looked at at all.
func TestGIDOfADevice(t *testing.T) {
	r := newRig(t)
	gid := cm.AddrFromGID(verbs.GID(r.hosts[0].IPv4.As16()), cm.PortSpaceTCP, 0)
	var oe *cm.OpError
	server := r.newID(r.server)
	if err := server.Bind(gid); !errors.Is(err, syscall.ENODEV) || !errors.As(err, &oe) || server.State() != cm.StateIdle {
		t.Errorf("bind: %v, the ID is %v", err, server.State())
	}
	client := r.newID(r.client)
	err := client.ResolveAddr(cm.Addr{}, gid, time.Second)
	if iwarp() {
		if !errors.Is(err, syscall.ENODEV) || client.State() != cm.StateIdle {
			t.Errorf("resolve: %v, the ID is %v", err, client.State())
		}
		return
	}
	r.ok(err)
	r.want(r.client, client, cm.EventAddrResolved, 0)
	if dev := client.Device(); dev == nil || dev.Name() != r.hosts[0].Device {
		t.Errorf("resolved on %v", dev)
	}
	if err := client.ResolveRoute(time.Second); !errors.Is(err, syscall.ENODEV) || client.State() != cm.StateAddrResolved {
		t.Errorf("route: %v, the ID is %v", err, client.State())
	}
	// 92 bytes are what a request between such addresses carries.
	var pe *cm.ArgumentError
	if err := client.Connect(&cm.ConnParam{PrivateData: make([]byte, 93), QPNum: 1}); !errors.As(err, &pe) || pe.Max != 92 {
		t.Errorf("93 bytes: %v", err)
	}
}
