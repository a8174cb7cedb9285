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

// The tests in the files named conformance check sentences of the manual pages.
// docs/reference/conformance.md lists the sentences.

// rcPair is a rig with the two IDs of one future connection.
type rcPair struct {
	*rig
	active  *cm.ID // resolved to the listener
	passive *cm.ID // set by request
}

func newRCPair(t *testing.T) *rcPair {
	t.Helper()
	r := newRig(t)
	return &rcPair{rig: r, active: r.resolved()}
}

func rcAddr(ip netip.Addr, port uint16) cm.Addr { return cm.AddrFrom(netip.AddrPortFrom(ip, port)) }

// next waits for the next event of a channel, acknowledges it, and fails the test if it is
// another event or belongs to another ID. A nil id accepts any ID.
func (p *rcPair) next(ch *cm.EventChannel, id *cm.ID, want cm.EventType) *cm.Event {
	p.t.Helper()
	ev := expect(p.t, ch, want)
	ev.Ack()
	if id != nil && ev.ID != id {
		p.t.Fatalf("Next() = %v, want an event of %v", ev, id)
	}
	return ev
}

// route resolves the route from one address to another for an ID.
func (p *rcPair) route(id *cm.ID, from, to cm.Addr) {
	p.t.Helper()
	p.ok(id.ResolveAddr(from, to, 2*time.Second))
	p.next(p.client, id, cm.EventAddrResolved)
	p.ok(id.ResolveRoute(2 * time.Second))
	p.next(p.client, id, cm.EventRouteResolved)
}

// request sends the connect request of the active side, and waits for its event on the passive
// side.
func (p *rcPair) request(param *cm.ConnParam) *cm.Event {
	p.t.Helper()
	if vmtest.IWARP() && p.active.QP() == nil {
		p.qpOf(p.active) // iWARP needs a QP
	}
	p.ok(p.active.Connect(param))
	ev := p.next(p.server, nil, cm.EventConnectRequest)
	p.passive = ev.ID
	return ev
}

// qpOf creates a QP for an ID.
func (p *rcPair) qpOf(id *cm.ID) *verbs.QP {
	p.t.Helper()
	return p.withQP(id).QP()
}

// accepted accepts the request, and waits until both sides are connected. It returns the event
// of the active side.
func (p *rcPair) accepted(param *cm.ConnParam) *cm.Event {
	p.t.Helper()
	p.ok(p.passive.Accept(param))
	ev := p.next(p.client, p.active, cm.EventEstablished)
	p.next(p.server, p.passive, cm.EventEstablished)
	return ev
}

// connect connects with QPs on both sides.
func (p *rcPair) connect() {
	p.t.Helper()
	p.qpOf(p.active)
	p.request(nil)
	p.qpOf(p.passive)
	p.accepted(nil)
}

// disconnect ends the connection from the active side.
func (p *rcPair) disconnect() {
	p.t.Helper()
	p.ok(p.active.Disconnect())
	p.next(p.server, p.passive, cm.EventDisconnected)
	p.ok(p.passive.Disconnect())
	p.next(p.client, p.active, cm.EventDisconnected)
}

func (p *rcPair) query(qp *verbs.QP) verbs.QPAttr {
	p.t.Helper()
	attr, err := qp.Query()
	p.ok(err)
	return attr
}
