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

// TestListenStaysOnTheBoundAddress checks that a listener gets no requests for other addresses
// of the host, neither on the same device nor on another.
func TestListenStaysOnTheBoundAddress(t *testing.T) {
	p := newRCPair(t)
	port := p.listener.LocalAddr().Port()
	if ip := p.listener.LocalAddr().Addr(); ip != p.hosts[0].IPv4 || port == 0 {
		t.Errorf("LocalAddr() = %v, want %v and a port", p.listener.LocalAddr(), p.hosts[0].IPv4)
	}
	_, err := dialerOf(p.hosts[0].IPv4).Dial(within(t, 10*time.Second), "tcp", at(p.hosts[1].IPv4, port))
	wantError(t, err, "connect", syscall.ECONNREFUSED)
	if vmtest.Driver() != "erdma" { // which connects over IPv4 only
		// The device has a listener on that port. The kernel then rejects the request with the
		// reason of an application.
		_, err = dialerOf(p.hosts[1].IPv6).Dial(within(t, 10*time.Second), "tcp", at(p.hosts[0].IPv6, port))
		var rej *cm.RejectError
		if !errors.As(err, &rej) || rej.Reason != cm.RejectConsumer && !vmtest.IWARP() {
			t.Errorf("Dial of another address of the device = %v, want a RejectError with reason consumer", err)
		}
	}
	p.quiet(p.server, 100*time.Millisecond)
	p.request(&cm.ConnParam{})
}

// TestListenWithoutBind checks that the kernel binds an ID without an address to a free port
// of every device, as it does for C programs.
func TestListenWithoutBind(t *testing.T) {
	p := newRCPair(t)
	id := p.newID(p.server)
	p.ok(id.Listen(0))
	addr := id.LocalAddr()
	if !addr.Addr().IsUnspecified() || addr.Port() == 0 {
		t.Fatalf("LocalAddr() = %v, want the unspecified address and a port", addr)
	}
	for i, from := range p.hosts {
		to := p.hosts[1-i]
		active := p.newID(p.client)
		p.route(active, rcAddr(from.IPv4, 0), rcAddr(to.IPv4, addr.Port()))
		p.qpOf(active)
		p.ok(active.Connect(&cm.ConnParam{}))
		if ev := p.next(p.server, nil, cm.EventConnectRequest); ev.Listener != id {
			t.Errorf("Listener of the request from %s = %v, want %v", from.Device, ev.Listener, id)
		}
	}
}

// TestBacklogBoundsUnfetchedRequests checks that a request beyond the backlog is not answered,
// and that it is repeated and accepted later.
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
	time.Sleep(500 * time.Millisecond) // until all have arrived, unfetched
	for range backlog {
		p.next(p.server, nil, cm.EventConnectRequest)
	}
	// Fetching has made room, but the other requests have been dropped. Their senders repeat
	// them after seconds.
	p.quiet(p.server, time.Second)
	p.quiet(p.client, 10*time.Millisecond)
	for range peers - backlog {
		ev, err := p.server.Next(within(t, 20*time.Second))
		p.ok(err)
		if ev.Type != cm.EventConnectRequest {
			t.Fatalf("Next() = %v, want CONNECT_REQUEST", ev)
		}
	}
}

// TestAFloodOfRequests checks that the kernel keeps only as many requests as the backlog
// allows while the program does not accept, and that the Listener itself keeps none. All
// remaining peers are served when the program accepts.
func TestAFloodOfRequests(t *testing.T) {
	// Dropped requests are repeated after seconds. A backlog of them is then served. The
	// backlog is half of the peers, so that all dropped requests wait only once.
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
		t.Errorf("the kernel keeps %d requests, want 1 to %d", more, backlog)
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
			t.Fatalf("Next() = %v, %v, want a consumer's rejection", ev, ev.Err())
		}
		delete(waiting, ev.ID)
	}
	p.ok(<-served)
}

// TestRequestIsBoundToItsDevice checks that a listener without an IP address has no device,
// and that a request is bound to the device on which it arrived.
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
		t.Errorf("Device() of the listener = %s, want none", dev.Name())
	}
	seen := map[*cm.ID]bool{wild: true}
	for i, from := range hosts {
		to := hosts[1-i]
		p.active = p.newID(p.client)
		p.route(p.active, rcAddr(from.IPv4, 0), rcAddr(to.IPv4, port))
		ev := p.request(&cm.ConnParam{})
		if seen[ev.ID] || ev.Listener != wild {
			t.Errorf("CONNECT_REQUEST has ID %v and listener %v, want a new ID and %v", ev.ID, ev.Listener, wild)
		}
		seen[ev.ID] = true
		if dev := ev.ID.Device(); dev == nil || dev.Name() != to.Device {
			t.Errorf("Device() of the request to %s = %v", to.Device, dev)
		}
		if ev.ID.LocalAddr() != rcAddr(to.IPv4, port) || ev.ID.RemoteAddr().Addr() != from.IPv4 {
			t.Errorf("request from %v to %v, want from %v to %v", ev.ID.RemoteAddr(), ev.ID.LocalAddr(), from.IPv4, rcAddr(to.IPv4, port))
		}
	}
}
