// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"net/netip"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// The tests of these files show sentences of the manual pages, one group each, for
// reliable connections in the event channel model: docs/conformance.md says which.

// rcPair is the two sides of a connection to be, each with an event channel of its
// own: the listener on the first end of the wire, the active ID on the second.
type rcPair struct {
	t              *testing.T
	hosts          []vmtest.Host
	server, client *cm.EventChannel
	listener       *cm.ID
	active         *cm.ID // has a route to the listener
	passive        *cm.ID // of the connect request
}

func newRCPair(t *testing.T) *rcPair {
	t.Helper()
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	p := &rcPair{t: t, hosts: hosts, server: newRCChannel(t), client: newRCChannel(t)}
	p.listener = newRCID(t, p.server)
	p.must(p.listener.Bind(rcAddr(hosts[0].IPv4, 0)))
	p.must(p.listener.Listen(0))
	p.active = p.routed(p.client)
	return p
}

func newRCChannel(t *testing.T) *cm.EventChannel {
	t.Helper()
	ch, err := cm.NewEventChannel()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ch.Close() })
	return ch
}

func newRCID(t *testing.T, ch *cm.EventChannel) *cm.ID {
	t.Helper()
	id, err := ch.NewID(cm.PortSpaceTCP)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func rcAddr(ip netip.Addr, port uint16) cm.Addr { return cm.AddrFrom(netip.AddrPortFrom(ip, port)) }

// routed makes an ID that has a route from the second end to the listener.
func (p *rcPair) routed(ch *cm.EventChannel) *cm.ID {
	p.t.Helper()
	id := newRCID(p.t, ch)
	p.must(id.ResolveAddr(rcAddr(p.hosts[1].IPv4, 0), p.listener.LocalAddr(), 2*time.Second))
	p.next(ch, id, cm.EventAddrResolved)
	p.must(id.ResolveRoute(2 * time.Second))
	p.next(ch, id, cm.EventRouteResolved)
	return id
}

func (p *rcPair) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// next takes the next event of a channel, acknowledges it, and fails the test if it
// is not the one that is expected; id nil stands for any.
func (p *rcPair) next(ch *cm.EventChannel, id *cm.ID, want cm.EventType) *cm.Event {
	p.t.Helper()
	ev, err := ch.Next(within(p.t, 5*time.Second))
	p.must(err)
	ev.Ack()
	if ev.Type != want || id != nil && ev.ID != id {
		p.t.Fatalf("got %v (%v) of %v, want %v of %v", ev, ev.Err(), ev.ID, want, id)
	}
	return ev
}

// requested sends the connect request of the active side, and takes it up at the
// other.
func (p *rcPair) requested(param *cm.ConnParam) *cm.Event {
	p.t.Helper()
	p.must(p.active.Connect(param))
	ev := p.next(p.server, nil, cm.EventConnectRequest)
	p.passive = ev.ID
	return ev
}

// withQP gives an ID a QP.
func (p *rcPair) withQP(id *cm.ID) *verbs.QP {
	p.t.Helper()
	p.must(id.CreateQP(nil, verbs.QPConfig{Type: verbs.RC}))
	return id.QP()
}

// accepted accepts the request, and waits until both sides are connected. It
// returns what the active side is told.
func (p *rcPair) accepted(param *cm.ConnParam) *cm.Event {
	p.t.Helper()
	p.must(p.passive.Accept(param))
	ev := p.next(p.client, p.active, cm.EventEstablished)
	p.next(p.server, p.passive, cm.EventEstablished)
	return ev
}

// connected connects with QPs on both sides.
func (p *rcPair) connected() {
	p.t.Helper()
	p.withQP(p.active)
	p.requested(nil)
	p.withQP(p.passive)
	p.accepted(nil)
}

// disconnected ends the connection, from the active side.
func (p *rcPair) disconnected() {
	p.t.Helper()
	p.must(p.active.Disconnect())
	p.next(p.server, p.passive, cm.EventDisconnected)
	p.must(p.passive.Disconnect())
	p.next(p.client, p.active, cm.EventDisconnected)
}

// nothing fails the test if an event comes within d.
func (p *rcPair) nothing(ch *cm.EventChannel, d time.Duration) {
	p.t.Helper()
	if ev, err := ch.Next(within(p.t, d)); err == nil {
		p.t.Errorf("got %v, nothing was to come", ev)
		ev.Ack()
	}
}

func (p *rcPair) query(qp *verbs.QP) verbs.QPAttr {
	p.t.Helper()
	attr, err := qp.Query()
	p.must(err)
	return attr
}
