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
		r.t.Fatalf("%v has %d paths", id, len(paths))
	}
	return paths[0]
}

// TestQueryPath: the path that the kernel makes of the route, on both sides.
func TestQueryPath(t *testing.T) {
	r := newRig(t)
	client := r.resolved()
	want := func(id *cm.ID, from, to vmtest.Host) {
		t.Helper()
		p := r.path(id)
		if p.SGID != verbs.GID(from.IPv4.As16()) || p.DGID != verbs.GID(to.IPv4.As16()) || p.PKey != 0xFFFF || p.HopLimit == 0 {
			t.Errorf("the path is %+v", p)
		}
		if p.Flags != cm.PathGMP|cm.PathPrimary|cm.PathBidirectional || !p.Reversible || p.MTUSelector != 2 {
			t.Errorf("the path is %+v", p)
		}
		if life := p.PacketLifeTime(); life < 100*time.Millisecond || life > 2*time.Second {
			t.Errorf("a packet lives %v", life)
		}
		local, remote, err := id.QueryGID()
		r.ok(err)
		if local.GID != p.SGID || remote.GID != p.DGID || local.ServiceID>>16 != uint64(cm.PortSpaceTCP) ||
			uint16(local.ServiceID) != id.LocalAddr().Port() || uint16(remote.ServiceID) != id.RemoteAddr().Port() {
			t.Errorf("the GIDs are %+v and %+v", local, remote)
		}
	}
	want(client, r.hosts[1], r.hosts[0])
	want(r.requested(client, &cm.ConnParam{QPNum: 1}), r.hosts[0], r.hosts[1])
}

// TestSetIBPath: a path of one's own instead of the kernel's resolution.
func TestSetIBPath(t *testing.T) {
	r := newRig(t)
	p := r.path(r.resolved())
	id := r.newID(r.client)
	src := cm.AddrFrom(netip.AddrPortFrom(r.hosts[1].IPv4, 0))
	if err := id.SetIBPath(nil); err == nil {
		t.Error("no path was accepted")
	}
	var se *cm.StateError
	if err := id.SetIBPath([]cm.Path{p}); !errors.As(err, &se) || !slices.Equal(se.Want, []cm.State{cm.StateAddrResolved}) {
		t.Errorf("before the address is known: %v", err)
	}
	r.ok(id.ResolveAddr(src, r.listener.LocalAddr(), time.Second))
	r.want(r.client, id, cm.EventAddrResolved, 0)
	wrong := p
	wrong.Flags = cm.PathAlternate
	if err := id.SetIBPath([]cm.Path{wrong}); !errors.Is(err, syscall.EINVAL) || id.State() != cm.StateAddrResolved {
		t.Errorf("no primary path: %v, the ID is %v", err, id.State())
	}
	p.TrafficClass = 0x20
	r.ok(id.SetIBPath([]cm.Path{p}))
	r.want(r.client, id, cm.EventRouteResolved, 0)
	if got := r.path(id); got.TrafficClass != 0x20 || got.DGID != p.DGID {
		t.Errorf("the path is %+v", got)
	}
	r.withQP(id)
	server := r.withQP(r.requested(id, nil))
	r.ok(server.Accept(nil))
	r.want(r.client, id, cm.EventEstablished, 0)
	r.exchange(id, server)
}
