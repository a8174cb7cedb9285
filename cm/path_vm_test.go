// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// path returns the only path of an ID.
func (r *rig) path(id *cm.ID) cm.Path {
	r.t.Helper()
	paths, err := id.QueryPath()
	r.ok(err)
	if len(paths) != 1 {
		r.t.Fatalf("QueryPath of %v = %d paths, want 1", id, len(paths))
	}
	return paths[0]
}

// TestQueryPath checks the path that the kernel derives from the route on both sides.
func TestQueryPath(t *testing.T) {
	r := newRig(t)
	client := r.resolved()
	want := func(id *cm.ID, from, to vmtest.Host) {
		t.Helper()
		p := r.path(id)
		if p.SGID != verbs.GID(from.IPv4.As16()) || p.DGID != verbs.GID(to.IPv4.As16()) || p.PKey != 0xFFFF || p.HopLimit == 0 {
			t.Errorf("path = %+v, want GIDs of %v and %v, PKey 0xffff, a hop limit", p, from.IPv4, to.IPv4)
		}
		if p.Flags != cm.PathGMP|cm.PathPrimary|cm.PathBidirectional || !p.Reversible || p.MTUSelector != 2 {
			t.Errorf("path = %+v, want a reversible primary path", p)
		}
		if life := p.PacketLifeTime(); life < 100*time.Millisecond || life > 2*time.Second {
			t.Errorf("PacketLifeTime() = %v, want 100ms to 2s", life)
		}
		local, remote, err := id.QueryGID()
		r.ok(err)
		if local.GID != p.SGID || remote.GID != p.DGID || local.ServiceID>>16 != uint64(cm.PortSpaceTCP) ||
			uint16(local.ServiceID) != id.LocalAddr().Port() || uint16(remote.ServiceID) != id.RemoteAddr().Port() {
			t.Errorf("QueryGID() = %+v, %+v, want the GIDs of the path and the service IDs of the ports", local, remote)
		}
	}
	want(client, r.hosts[1], r.hosts[0])
	want(r.requested(client, &cm.ConnParam{QPNum: 1}), r.hosts[0], r.hosts[1])
}

// TestSetIBPath sets a path instead of the kernel's route resolution.
func TestSetIBPath(t *testing.T) {
	r := newRig(t)
	p := r.path(r.resolved())
	id := r.newID(r.client)
	src := cm.AddrFrom(netip.AddrPortFrom(r.hosts[1].IPv4, 0))
	if err := id.SetIBPath(nil); err == nil {
		t.Error("SetIBPath(nil) = nil, want an error")
	}
	var se *cm.StateError
	if err := id.SetIBPath([]cm.Path{p}); !errors.As(err, &se) || !slices.Equal(se.Want, []cm.State{cm.StateAddrResolved}) {
		t.Errorf("SetIBPath before ResolveAddr = %v, want a StateError", err)
	}
	r.ok(id.ResolveAddr(src, r.listener.LocalAddr(), time.Second))
	r.want(r.client, id, cm.EventAddrResolved, 0)
	wrong := p
	wrong.Flags = cm.PathAlternate
	if err := id.SetIBPath([]cm.Path{wrong}); !errors.Is(err, syscall.EINVAL) || id.State() != cm.StateAddrResolved {
		t.Errorf("SetIBPath without a primary path = %v in state %v, want EINVAL, address resolved", err, id.State())
	}
	p.TrafficClass = 0x20
	r.ok(id.SetIBPath([]cm.Path{p}))
	r.want(r.client, id, cm.EventRouteResolved, 0)
	if got := r.path(id); got.TrafficClass != 0x20 || got.DGID != p.DGID {
		t.Errorf("path = %+v, want traffic class 0x20", got)
	}
	r.withQP(id)
	server := r.withQP(r.requested(id, nil))
	r.ok(server.Accept(nil))
	r.want(r.client, id, cm.EventEstablished, 0)
	r.exchange(id, server)
}
