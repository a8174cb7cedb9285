// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestGIDOfADevice checks the errors of InfiniBand addresses on RoCE and iWARP. On RoCE the
// kernel accepts a port's GID as a destination, but makes no route to it. Binding to a GID
// needs an InfiniBand port. The kernel does not consider the GIDs of iWARP devices.
func TestGIDOfADevice(t *testing.T) {
	r := newRig(t)
	gid := cm.AddrFromGID(verbs.GID(r.hosts[0].IPv4.As16()), cm.PortSpaceTCP, 0)
	var oe *cm.OpError
	server := r.newID(r.server)
	if err := server.Bind(gid); !errors.Is(err, syscall.ENODEV) || !errors.As(err, &oe) || server.State() != cm.StateIdle {
		t.Errorf("Bind(GID) = %v in state %v, want ENODEV, idle", err, server.State())
	}
	client := r.newID(r.client)
	err := client.ResolveAddr(cm.Addr{}, gid, time.Second)
	if vmtest.IWARP() {
		if !errors.Is(err, syscall.ENODEV) || client.State() != cm.StateIdle {
			t.Errorf("ResolveAddr(GID) = %v in state %v, want ENODEV, idle", err, client.State())
		}
		return
	}
	r.ok(err)
	r.want(r.client, client, cm.EventAddrResolved, 0)
	if dev := client.Device(); dev == nil || dev.Name() != r.hosts[0].Device {
		t.Errorf("Device() = %v, want %s", dev, r.hosts[0].Device)
	}
	if err := client.ResolveRoute(time.Second); !errors.Is(err, syscall.ENODEV) || client.State() != cm.StateAddrResolved {
		t.Errorf("ResolveRoute() = %v in state %v, want ENODEV, address resolved", err, client.State())
	}
	// A request between such addresses carries 92 bytes.
	var pe *cm.ArgumentError
	if err := client.Connect(&cm.ConnParam{PrivateData: make([]byte, 93), QPNum: 1}); !errors.As(err, &pe) || pe.Max != 92 {
		t.Errorf("Connect with 93 bytes of private data = %v, want an ArgumentError with Max 92", err)
	}
}
