// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
)

// TestListenStaysOnTheBoundAddress: other addresses of the host, on the same device
// or another, are not listened on.
func TestListenStaysOnTheBoundAddress(t *testing.T) {
	p := newRCPair(t)
	port := p.listener.LocalAddr().Port()
	if ip := p.listener.LocalAddr().Addr(); ip != p.hosts[0].IPv4 || port == 0 {
		t.Errorf("the listener is on %v", p.listener.LocalAddr())
	}
	_, err := dialerOf(p.hosts[0].IPv4).Dial(within(t, 10*time.Second), "tcp", at(p.hosts[1].IPv4, port))
	wantError(t, err, "connect", syscall.ECONNREFUSED)
	// The device has a listener on that port: the kernel then says, as the
	// application does, that it does not want the request.
	_, err = dialerOf(p.hosts[1].IPv6).Dial(within(t, 10*time.Second), "tcp", at(p.hosts[0].IPv6, port))
	var rej *cm.RejectError
	if !errors.As(err, &rej) || rej.Reason != cm.RejectConsumer && !iwarp() {
		t.Errorf("another address of the device: %v", err)
	}
	p.quiet(p.server, 100*time.Millisecond)
	p.request(&cm.ConnParam{})
}

// TestListenWithoutBind: the kernel binds an ID without an address to a free port
// of every device, as it does for C.
func TestListenWithoutBind(t *testing.T) {
	p := newRCPair(t)
	id := p.newID(p.server)
	p.ok(id.Listen(0))
	addr := id.LocalAddr()
	if !addr.Addr().IsUnspecified() || addr.Port() == 0 {
		t.Fatalf("it listens on %v", addr)
	}
	for i, from := range p.hosts {
		to := p.hosts[1-i]
		active := p.newID(p.client)
		p.route(active, rcAddr(from.IPv4, 0), rcAddr(to.IPv4, addr.Port()))
		p.qpOf(active)
		p.ok(active.Connect(&cm.ConnParam{}))
		if ev := p.next(p.server, nil, cm.EventConnectRequest); ev.Listener != id {
			t.Errorf("the request from %s went to %v", from.Device, ev.Listener)
		}
	}
}

// TestBacklogBoundsUnfetchedRequests: a request beyond the backlog is not answered,
// and comes again when there is room.
func TestBacklogBoundsUnfetchedRequests(t *testing.T) {
	const backlog, peers = 2, 4
	p := newRCPair(t)
	p.listener.Close()
	p.listener = p.newID(p.server)
	p.ok(p.listener.Bind(rcAddr(p.hosts[0].IPv4, 0)))
	p.ok(p.listener.Listen(backlog))
	ids := make([]*cm.ID, peers)
	for i := range ids {
		ids[i] = p.resolved()
	}
	for i, id := range ids {
		p.ok(id.Connect(&cm.ConnParam{QPNum: uint32(0x4711 + i)}))
	}
	time.Sleep(500 * time.Millisecond) // all have arrived, and nobody has looked
	for range backlog {
		p.next(p.server, nil, cm.EventConnectRequest)
	}
	// Fetching has made room, but the others have been dropped: their senders
	// repeat them after seconds.
	p.quiet(p.server, time.Second)
	p.quiet(p.client, 10*time.Millisecond)
	for range peers - backlog {
		ev, err := p.server.Next(within(t, 20*time.Second))
		p.ok(err)
		if ev.Type != cm.EventConnectRequest {
			t.Fatalf("got %v", ev)
		}
	}
}

// TestAFloodOfRequests: while nobody accepts, no more of them are kept than the backlog
// has room for, and none of them in the listener; when somebody does, all are served that
// still want to be.
func TestAFloodOfRequests(t *testing.T) {
	// Those that are dropped come again after seconds, and then one backlog is served:
	// all of the others, so that they wait for seconds once.
	const backlog, peers = 32, 64
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ln, err := (&cm.ListenConfig{Backlog: backlog}).Listen(within(t, 10*time.Second), "tcp", at(hosts[0].IPv4, 0))
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer ln.Close()
	p := &rcPair{rig: &rig{t: t, hosts: hosts, config: cm.IDConfig{}, client: channel(t)}}
	waiting := map[*cm.ID]bool{}
	for range peers {
		id := p.newID(p.client)
		p.route(id, rcAddr(hosts[1].IPv4, 0), ln.Addr())
		waiting[id] = true
	}
	before := hosts[0].CMIDs(t)
	qpn := uint32(0x4711)
	for id := range waiting {
		p.ok(id.Connect(&cm.ConnParam{QPNum: qpn}))
		qpn++
	}
	time.Sleep(time.Second)
	if more := hosts[0].CMIDs(t) - before; more == 0 || more > backlog {
		t.Errorf("%d requests are kept, the backlog is %d", more, backlog)
	}
	served := make(chan error, 1)
	go func() {
		for range peers {
			req, err := ln.Accept(within(t, 60*time.Second))
			if err == nil {
				err = req.Reject(nil)
			}
			if err != nil {
				served <- err
				return
			}
		}
		served <- nil
	}()
	for len(waiting) > 0 {
		ev, err := p.client.Next(within(t, 60*time.Second))
		p.ok(err)
		ev.Ack()
		if ev.Type != cm.EventRejected || ev.Status != cm.RejectConsumer || !waiting[ev.ID] {
			t.Fatalf("got %v: %v", ev, ev.Err())
		}
		delete(waiting, ev.ID)
	}
	p.ok(<-served)
}

// TestRequestIsBoundToItsDevice: the listener on a port alone has no device, a
// request has the one that it came by.
func TestRequestIsBoundToItsDevice(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	p := newRCPair(t)
	wild := p.newID(p.server)
	p.ok(wild.Bind(rcAddr(hosts[0].IPv4, 0)))
	port := wild.LocalAddr().Port()
	wild.Close()
	wild = p.newID(p.server)
	p.ok(wild.Bind(mustParse(at(netip.IPv4Unspecified(), port))))
	p.ok(wild.Listen(0))
	if dev := wild.Device(); dev != nil {
		t.Errorf("the listener on a port is bound to %s", dev.Name())
	}
	seen := map[*cm.ID]bool{wild: true}
	for i, from := range hosts {
		to := hosts[1-i]
		p.active = p.newID(p.client)
		p.route(p.active, rcAddr(from.IPv4, 0), rcAddr(to.IPv4, port))
		ev := p.request(&cm.ConnParam{})
		if seen[ev.ID] || ev.Listener != wild {
			t.Errorf("the request has %v, its listener is %v", ev.ID, ev.Listener)
		}
		seen[ev.ID] = true
		if dev := ev.ID.Device(); dev == nil || dev.Name() != to.Device {
			t.Errorf("the request to %s is bound to %v", to.Device, dev)
		}
		if ev.ID.LocalAddr() != rcAddr(to.IPv4, port) || ev.ID.RemoteAddr().Addr() != from.IPv4 {
			t.Errorf("the request is %v -> %v", ev.ID.RemoteAddr(), ev.ID.LocalAddr())
		}
	}
}
