// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/verbs"
)

// TestConnectNeedsARoute: a Connect that comes too early fails and does no harm.
func TestConnectNeedsARoute(t *testing.T) {
	p := newRCPair(t)
	id := p.newID(p.client)
	wantError(t, id.Connect(nil), "connect", nil)
	p.ok(id.ResolveAddr(rcAddr(p.hosts[1].IPv4, 0), p.listener.LocalAddr(), 2*time.Second))
	p.next(p.client, id, cm.EventAddrResolved)
	wantError(t, id.Connect(&cm.ConnParam{}), "connect", nil, p.listener.LocalAddr().String())
	p.quiet(p.server, 100*time.Millisecond)
	p.ok(id.ResolveRoute(2 * time.Second))
	p.next(p.client, id, cm.EventRouteResolved)
	p.active = id
	p.request(&cm.ConnParam{})
}

// TestAcceptIsForRequests: an ID that has not come with a request cannot accept.
func TestAcceptIsForRequests(t *testing.T) {
	p := newRCPair(t)
	for name, id := range map[string]*cm.ID{
		"idle":           p.newID(p.server),
		"listening":      p.listener,
		"route resolved": p.active,
	} {
		wantError(t, id.Accept(nil), "accept", nil, name)
	}
	p.connect()
	wantError(t, p.passive.Accept(nil), "accept", nil, "established")
	p.disconnect()
}

// TestAcceptNil: the depths that were asked for are taken, on the QP and by the
// peer, and the retry counts are librdmacm's.
func TestAcceptNil(t *testing.T) {
	p := newRCPair(t)
	active := p.qpOf(p.active)
	ev := p.request(&cm.ConnParam{ResponderResources: 2, InitiatorDepth: 4, RetryCount: 5, RNRRetryCount: 6})
	if c := ev.Conn; c.ResponderResources != 4 || c.InitiatorDepth != 2 {
		t.Errorf("asked for %d and %d, the other way round than was sent", c.ResponderResources, c.InitiatorDepth)
	}
	passive := p.qpOf(p.passive)
	ev = p.accepted(nil)
	if c := ev.Conn; c.ResponderResources != 2 || c.InitiatorDepth != 4 || c.RNRRetryCount != 7 {
		t.Errorf("accepted with %+v", c)
	}
	if a := p.query(passive); a.MaxDestRdAtomic != 4 || a.MaxRdAtomic != 2 {
		t.Errorf("the passive QP serves %d and has %d in flight", a.MaxDestRdAtomic, a.MaxRdAtomic)
	}
	if a := p.query(active); a.MaxDestRdAtomic != 2 || a.MaxRdAtomic != 4 {
		t.Errorf("the active QP serves %d and has %d in flight", a.MaxDestRdAtomic, a.MaxRdAtomic)
	}
}

// TestAcceptAdjustsDepths: the accepting side may lower what was asked for, and may
// serve more than the peer will use.
func TestAcceptAdjustsDepths(t *testing.T) {
	p := newRCPair(t)
	active := p.qpOf(p.active)
	p.request(&cm.ConnParam{ResponderResources: 4, InitiatorDepth: 2})
	passive := p.qpOf(p.passive)
	ev := p.accepted(&cm.ConnParam{ResponderResources: 8, InitiatorDepth: 1})
	if c := ev.Conn; c.InitiatorDepth != 8 || c.ResponderResources != 1 {
		t.Errorf("accepted with %+v", c)
	}
	if a := p.query(passive); a.MaxDestRdAtomic != 8 || a.MaxRdAtomic != 1 {
		t.Errorf("the passive QP serves %d and has %d in flight", a.MaxDestRdAtomic, a.MaxRdAtomic)
	}
	if a := p.query(active); a.MaxDestRdAtomic != 1 {
		t.Errorf("the active QP serves %d", a.MaxDestRdAtomic)
	}
}

// TestAcceptedDepthsBeyondTheDevice: the error comes before the peer hears anything.
func TestAcceptedDepthsBeyondTheDevice(t *testing.T) {
	p := newRCPair(t)
	p.qpOf(p.active)
	p.request(nil)
	p.qpOf(p.passive)
	attr := p.passive.Device().Attr()
	if attr.MaxQPRdAtom > 253 || attr.MaxQPInitRdAtom > 253 {
		t.Fatalf("the device can %d and %d, this test needs a smaller one", attr.MaxQPRdAtom, attr.MaxQPInitRdAtom)
	}
	var pe *cm.ArgumentError
	err := p.passive.Accept(&cm.ConnParam{ResponderResources: attr.MaxQPRdAtom + 1})
	if wantError(t, err, "accept", nil, "max_qp_rd_atom"); !errors.As(err, &pe) || pe.Max != attr.MaxQPRdAtom {
		t.Errorf("got %#v", pe)
	}
	err = p.passive.Accept(&cm.ConnParam{InitiatorDepth: attr.MaxQPInitRdAtom + 1})
	if wantError(t, err, "accept", nil, "max_qp_init_rd_atom"); !errors.As(err, &pe) || pe.Max != attr.MaxQPInitRdAtom {
		t.Errorf("got %#v", pe)
	}
	p.accepted(nil)
}

// TestAcceptWithTheEventsParameters: they are ours after Ack, and can be given back as
// they are.
func TestAcceptWithTheEventsParameters(t *testing.T) {
	p := newRCPair(t)
	p.qpOf(p.active)
	ev := p.request(&cm.ConnParam{PrivateData: []byte("kept"), ResponderResources: 4, InitiatorDepth: 2, RNRRetryCount: 3})
	p.qpOf(p.passive)
	// The event has been acknowledged already.
	param := ev.Conn
	if !bytes.HasPrefix(param.PrivateData, []byte("kept\x00")) {
		t.Errorf("after Ack the private data is %q", param.PrivateData)
	}
	ev = p.accepted(&param)
	if c := ev.Conn; c.ResponderResources != 4 || c.InitiatorDepth != 2 || c.RNRRetryCount != 3 || !bytes.HasPrefix(c.PrivateData, []byte("kept\x00")) {
		t.Errorf("what the peer asked for came back as %+v", c)
	}
}

// TestRetryCountsReachTheQPs: the connecting side's retry count holds for both, each
// side's RNR retry count for the other, and the timers are the kernel's.
func TestRetryCountsReachTheQPs(t *testing.T) {
	p := newRCPair(t)
	active := p.qpOf(p.active)
	paths, err := p.active.QueryPath()
	p.ok(err)
	if len(paths) != 1 || paths[0].LifeTime < 16 {
		t.Fatalf("the route has %+v", paths)
	}
	ev := p.request(&cm.ConnParam{RetryCount: 5, RNRRetryCount: 6})
	if ev.Conn.RetryCount != 5 || ev.Conn.RNRRetryCount != 6 {
		t.Errorf("requested with %+v", ev.Conn)
	}
	passive := p.qpOf(p.passive)
	ev = p.accepted(&cm.ConnParam{RetryCount: 1, RNRRetryCount: 2})
	if ev.Conn.RetryCount != 0 || ev.Conn.RNRRetryCount != 2 {
		t.Errorf("accepted with %+v", ev.Conn)
	}
	for _, side := range []struct {
		name     string
		attr     verbs.QPAttr
		rnrRetry uint8
	}{{"active", p.query(active), 2}, {"passive", p.query(passive), 6}} {
		if a := side.attr; a.RetryCount != 5 || a.RNRRetryCount != side.rnrRetry {
			t.Errorf("the %s QP repeats %d and %d times", side.name, a.RetryCount, a.RNRRetryCount)
		}
		if side.attr.MinRNRTimer != 0 {
			t.Errorf("the %s QP has RNR timer %d", side.name, side.attr.MinRNRTimer)
		}
		// There and back; the device's own delay adds nothing to a power of two if it
		// is less than the path's, and doubles it if it is as long, as a card's may be.
		delay, want := p.active.Device().Attr().LocalCAAckDelay, paths[0].LifeTime+1
		if delay == paths[0].LifeTime {
			want++
		}
		if delay > paths[0].LifeTime || side.attr.Timeout != want {
			t.Errorf("the %s QP has ACK timeout %d, the path's lifetime is %d, the device's delay %d", side.name, side.attr.Timeout, paths[0].LifeTime, delay)
		}
	}
}

// TestReceiverNotReady: a send that finds no posted receive is repeated as often as
// the receiver has said when it accepted.
func TestReceiverNotReady(t *testing.T) {
	ln, d := ends(t)
	for _, tc := range []struct {
		count int
		ok    bool
	}{{cm.None, false}, {7, true}} {
		peer := make(chan *cm.Conn, 1)
		go func() {
			defer close(peer)
			req, err := ln.Accept(within(t, 10*time.Second))
			if err != nil {
				t.Error(err)
				return
			}
			conn, err := req.Accept(within(t, 10*time.Second), nil, &cm.ConnParam{RNRRetryCount: tc.count})
			if err != nil {
				t.Error(err)
				return
			}
			peer <- conn
		}()
		conn, err := d.Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		server := <-peer
		if server == nil {
			t.FailNow()
		}
		defer server.Close()
		buf, err := conn.PD().Alloc(4096, verbs.LocalWrite)
		if err != nil {
			t.Fatal(err)
		}
		defer buf.Close()
		in, err := server.PD().Alloc(4096, verbs.LocalWrite)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		posted := time.AfterFunc(300*time.Millisecond, func() { server.PostRecv(1, in.SGE()) })
		err = conn.Send(within(t, 20*time.Second), buf.Slice(0, 64))
		posted.Stop()
		var wcErr *verbs.WCError
		if tc.ok && err != nil {
			t.Errorf("with count %d: %v", tc.count, err)
		} else if !tc.ok && (!errors.As(err, &wcErr) || wcErr.Status != verbs.WCRNRRetryExcErr) {
			t.Errorf("with count %d: %v", tc.count, err)
		}
	}
}

// TestFlowControlIsOnlyToldThePeer: each side hears what the other has said.
func TestFlowControlIsOnlyToldThePeer(t *testing.T) {
	for _, tc := range []struct{ connect, accept bool }{{true, false}, {false, true}} {
		p := newRCPair(t)
		p.qpOf(p.active)
		if ev := p.request(&cm.ConnParam{FlowControl: tc.connect}); ev.Conn.FlowControl != tc.connect {
			t.Errorf("requested with %v, told %v", tc.connect, ev.Conn.FlowControl)
		}
		p.qpOf(p.passive)
		if ev := p.accepted(&cm.ConnParam{FlowControl: tc.accept}); ev.Conn.FlowControl != tc.accept {
			t.Errorf("accepted with %v, told %v", tc.accept, ev.Conn.FlowControl)
		}
	}
}

// TestTheIDsQPOverridesTheParameters: srq and qp_num are those of the ID's QP.
func TestTheIDsQPOverridesTheParameters(t *testing.T) {
	p := newRCPair(t)
	active := p.qpOf(p.active)
	if ev := p.request(&cm.ConnParam{SRQ: true, QPNum: active.Num() + 1}); ev.Conn.SRQ || ev.Conn.QPNum != active.Num() {
		t.Errorf("QP %d has no SRQ, the request has %+v", active.Num(), ev.Conn)
	}
	passive := p.qpOf(p.passive)
	if ev := p.accepted(&cm.ConnParam{SRQ: true, QPNum: passive.Num() + 1}); ev.Conn.SRQ || ev.Conn.QPNum != passive.Num() {
		t.Errorf("QP %d has no SRQ, it was accepted with %+v", passive.Num(), ev.Conn)
	}
	if a := p.query(active); a.DestQPNum != passive.Num() {
		t.Errorf("the active QP talks to %d", a.DestQPNum)
	}
}

// TestWithoutAQPTheParametersCount: srq and qp_num are what the caller says.
func TestWithoutAQPTheParametersCount(t *testing.T) {
	p := newRCPair(t)
	if ev := p.request(&cm.ConnParam{SRQ: true, QPNum: 0x4711}); !ev.Conn.SRQ || ev.Conn.QPNum != 0x4711 {
		t.Errorf("requested with %+v", ev.Conn)
	}
	p.ok(p.passive.Accept(&cm.ConnParam{SRQ: true, QPNum: 0x4712}))
	if ev := p.next(p.client, p.active, cm.EventConnectResponse); !ev.Conn.SRQ || ev.Conn.QPNum != 0x4712 {
		t.Errorf("accepted with %+v", ev.Conn)
	}
	p.ok(p.active.Establish())
	p.next(p.server, p.passive, cm.EventEstablished)
}

// TestPrivateDataOfEachEvent: it is copied when the call is made, and arrives with
// zeros up to what the message holds, also when nothing was sent.
func TestPrivateDataOfEachEvent(t *testing.T) {
	is := func(t *testing.T, ev *cm.Event, want []byte) {
		t.Helper()
		if !bytes.Equal(ev.Conn.PrivateData, want) {
			t.Errorf("%v has %d bytes %q, want %d", ev.Type, len(ev.Conn.PrivateData), ev.Conn.PrivateData, len(want))
		}
	}
	for _, said := range []string{"ping", ""} {
		p := newRCPair(t)
		p.qpOf(p.active)
		mine := []byte(said)
		p.ok(p.active.Connect(&cm.ConnParam{PrivateData: mine}))
		clear(mine)
		ev := p.next(p.server, nil, cm.EventConnectRequest)
		is(t, ev, padded(said, 56))
		p.passive = ev.ID
		p.qpOf(p.passive)
		mine = []byte(said)
		p.ok(p.passive.Accept(&cm.ConnParam{PrivateData: mine}))
		clear(mine)
		is(t, p.next(p.client, p.active, cm.EventEstablished), padded(said, 196))
		is(t, p.next(p.server, p.passive, cm.EventEstablished), nil)
		p.ok(p.active.Disconnect())
		is(t, p.next(p.server, p.passive, cm.EventDisconnected), nil)
	}

	p := newRCPair(t)
	p.request(&cm.ConnParam{})
	p.ok(p.passive.Reject([]byte("no")))
	is(t, p.next(p.client, p.active, cm.EventRejected), padded("no", 148))
	p.listener.Close()
	id := p.resolved()
	p.ok(id.Connect(&cm.ConnParam{}))
	is(t, p.next(p.client, id, cm.EventRejected), nil) // by the kernel, which sends no private data
}
