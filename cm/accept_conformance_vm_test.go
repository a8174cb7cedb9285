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

// TestConnectNeedsARoute checks that Connect without a route fails and changes nothing.
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

// TestAcceptIsForRequests checks that only an ID from a connect request can accept.
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

// TestAcceptNil accepts with the default parameters. Both QPs and the peer use the requested
// depths, and the retry counts are the defaults of librdmacm.
func TestAcceptNil(t *testing.T) {
	p := newRCPair(t)
	active := p.qpOf(p.active)
	ev := p.request(&cm.ConnParam{ResponderResources: 2, InitiatorDepth: 4, RetryCount: 5, RNRRetryCount: 6})
	if c := ev.Conn; c.ResponderResources != 4 || c.InitiatorDepth != 2 {
		t.Errorf("CONNECT_REQUEST has the depths %d and %d, want 4 and 2", c.ResponderResources, c.InitiatorDepth)
	}
	passive := p.qpOf(p.passive)
	ev = p.accepted(nil)
	if c := ev.Conn; c.ResponderResources != 2 || c.InitiatorDepth != 4 || c.RNRRetryCount != 7 {
		t.Errorf("CONNECT_RESPONSE has %+v, want the depths 2 and 4 and RNR retry count 7", c)
	}
	if a := p.query(passive); a.MaxDestRdAtomic != 4 || a.MaxRdAtomic != 2 {
		t.Errorf("passive QP: MaxDestRdAtomic %d, MaxRdAtomic %d, want 4, 2", a.MaxDestRdAtomic, a.MaxRdAtomic)
	}
	if a := p.query(active); a.MaxDestRdAtomic != 2 || a.MaxRdAtomic != 4 {
		t.Errorf("active QP: MaxDestRdAtomic %d, MaxRdAtomic %d, want 2, 4", a.MaxDestRdAtomic, a.MaxRdAtomic)
	}
}

// TestAcceptAdjustsDepths accepts with a lower initiator depth than requested, and with more
// responder resources than the peer will use.
func TestAcceptAdjustsDepths(t *testing.T) {
	p := newRCPair(t)
	active := p.qpOf(p.active)
	p.request(&cm.ConnParam{ResponderResources: 4, InitiatorDepth: 2})
	passive := p.qpOf(p.passive)
	ev := p.accepted(&cm.ConnParam{ResponderResources: 8, InitiatorDepth: 1})
	if c := ev.Conn; c.InitiatorDepth != 8 || c.ResponderResources != 1 {
		t.Errorf("CONNECT_RESPONSE has %+v, want the depths 1 and 8", c)
	}
	if a := p.query(passive); a.MaxDestRdAtomic != 8 || a.MaxRdAtomic != 1 {
		t.Errorf("passive QP: MaxDestRdAtomic %d, MaxRdAtomic %d, want 8, 1", a.MaxDestRdAtomic, a.MaxRdAtomic)
	}
	if a := p.query(active); a.MaxDestRdAtomic != 1 {
		t.Errorf("active QP: MaxDestRdAtomic %d, want 1", a.MaxDestRdAtomic)
	}
}

// TestAcceptedDepthsBeyondTheDevice checks that Accept rejects depths above the device's
// limits before it sends anything to the peer.
func TestAcceptedDepthsBeyondTheDevice(t *testing.T) {
	p := newRCPair(t)
	p.qpOf(p.active)
	p.request(nil)
	p.qpOf(p.passive)
	attr := p.passive.Device().Attr()
	if attr.MaxQPRdAtom > 253 || attr.MaxQPInitRdAtom > 253 {
		t.Fatalf("MaxQPRdAtom = %d, MaxQPInitRdAtom = %d, want at most 253", attr.MaxQPRdAtom, attr.MaxQPInitRdAtom)
	}
	var pe *cm.ArgumentError
	err := p.passive.Accept(&cm.ConnParam{ResponderResources: attr.MaxQPRdAtom + 1})
	if wantError(t, err, "accept", nil, "max_qp_rd_atom"); !errors.As(err, &pe) || pe.Max != attr.MaxQPRdAtom {
		t.Errorf("Accept error = %#v, want an ArgumentError with the device's maximum", pe)
	}
	err = p.passive.Accept(&cm.ConnParam{InitiatorDepth: attr.MaxQPInitRdAtom + 1})
	if wantError(t, err, "accept", nil, "max_qp_init_rd_atom"); !errors.As(err, &pe) || pe.Max != attr.MaxQPInitRdAtom {
		t.Errorf("Accept error = %#v, want an ArgumentError with the device's maximum", pe)
	}
	p.accepted(nil)
}

// TestAcceptWithTheEventsParameters checks that the program owns an event's parameters after
// Ack, and can pass them to Accept unchanged.
func TestAcceptWithTheEventsParameters(t *testing.T) {
	p := newRCPair(t)
	p.qpOf(p.active)
	ev := p.request(&cm.ConnParam{PrivateData: []byte("kept"), ResponderResources: 4, InitiatorDepth: 2, RNRRetryCount: 3})
	p.qpOf(p.passive)
	// The event has been acknowledged already.
	param := ev.Conn
	if !bytes.HasPrefix(param.PrivateData, []byte("kept\x00")) {
		t.Errorf("private data after Ack = %q, want the prefix \"kept\\x00\"", param.PrivateData)
	}
	ev = p.accepted(&param)
	if c := ev.Conn; c.ResponderResources != 4 || c.InitiatorDepth != 2 || c.RNRRetryCount != 3 || !bytes.HasPrefix(c.PrivateData, []byte("kept\x00")) {
		t.Errorf("CONNECT_RESPONSE has %+v, want the parameters of the request", c)
	}
}

// TestRetryCountsReachTheQPs checks the retry counts and timers of both QPs. Both QPs use the
// retry count of the connecting side. Each QP uses the peer's RNR retry count. The kernel
// chooses the timers.
func TestRetryCountsReachTheQPs(t *testing.T) {
	p := newRCPair(t)
	active := p.qpOf(p.active)
	paths, err := p.active.QueryPath()
	p.ok(err)
	if len(paths) != 1 || paths[0].LifeTime < 16 {
		t.Fatalf("QueryPath() = %+v, want one path with a life time of at least 16", paths)
	}
	ev := p.request(&cm.ConnParam{RetryCount: 5, RNRRetryCount: 6})
	if ev.Conn.RetryCount != 5 || ev.Conn.RNRRetryCount != 6 {
		t.Errorf("CONNECT_REQUEST has %+v, want retry counts 5 and 6", ev.Conn)
	}
	passive := p.qpOf(p.passive)
	ev = p.accepted(&cm.ConnParam{RetryCount: 1, RNRRetryCount: 2})
	if ev.Conn.RetryCount != 0 || ev.Conn.RNRRetryCount != 2 {
		t.Errorf("CONNECT_RESPONSE has %+v, want retry counts 0 and 2", ev.Conn)
	}
	for _, side := range []struct {
		name     string
		attr     verbs.QPAttr
		rnrRetry uint8
	}{{"active", p.query(active), 2}, {"passive", p.query(passive), 6}} {
		if a := side.attr; a.RetryCount != 5 || a.RNRRetryCount != side.rnrRetry {
			t.Errorf("%s QP: RetryCount %d, RNRRetryCount %d, want 5, %d", side.name, a.RetryCount, a.RNRRetryCount, side.rnrRetry)
		}
		if side.attr.MinRNRTimer != 0 {
			t.Errorf("%s QP: MinRNRTimer = %d, want 0", side.name, side.attr.MinRNRTimer)
		}
		// The timeout covers both directions, which adds 1 to the path's life time. The
		// device's own delay is rounded to a power of two with it. A delay below the life time
		// adds nothing. A delay equal to the life time, as a card's may be, doubles the
		// timeout.
		delay, want := p.active.Device().Attr().LocalCAAckDelay, paths[0].LifeTime+1
		if delay == paths[0].LifeTime {
			want++
		}
		if delay > paths[0].LifeTime || side.attr.Timeout != want {
			t.Errorf("%s QP: ACK timeout %d, want %d for the path's life time %d and the device's delay %d", side.name, side.attr.Timeout, want, paths[0].LifeTime, delay)
		}
	}
}

// TestReceiverNotReady checks that a send without a posted receive is retried as often as the
// receiver has allowed in its Accept.
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
				t.Errorf("Accept: %v", err)
				return
			}
			conn, err := req.Accept(within(t, 10*time.Second), nil, &cm.ConnParam{RNRRetryCount: tc.count})
			if err != nil {
				t.Errorf("Accept: %v", err)
				return
			}
			peer <- conn
		}()
		conn, err := d.Dial(within(t, 10*time.Second), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		defer conn.Close()
		server := <-peer
		if server == nil {
			t.FailNow()
		}
		defer server.Close()
		buf, err := conn.PD().Alloc(4096, verbs.LocalWrite)
		if err != nil {
			t.Fatalf("Alloc: %v", err)
		}
		defer buf.Close()
		in, err := server.PD().Alloc(4096, verbs.LocalWrite)
		if err != nil {
			t.Fatalf("Alloc: %v", err)
		}
		defer in.Close()
		posted := time.AfterFunc(300*time.Millisecond, func() { server.PostRecv(1, in.SGE()) })
		err = conn.Send(within(t, 20*time.Second), buf.Slice(0, 64))
		posted.Stop()
		var wcErr *verbs.WCError
		if tc.ok && err != nil {
			t.Errorf("Send with RNRRetryCount %d: %v", tc.count, err)
		} else if !tc.ok && (!errors.As(err, &wcErr) || wcErr.Status != verbs.WCRNRRetryExcErr) {
			t.Errorf("Send with RNRRetryCount %d = %v, want %v", tc.count, err, verbs.WCRNRRetryExcErr)
		}
	}
}

// TestFlowControlReachesThePeer checks that each side's FlowControl reaches the peer's
// event.
func TestFlowControlReachesThePeer(t *testing.T) {
	for _, tc := range []struct{ connect, accept bool }{{true, false}, {false, true}} {
		p := newRCPair(t)
		p.qpOf(p.active)
		if ev := p.request(&cm.ConnParam{FlowControl: tc.connect}); ev.Conn.FlowControl != tc.connect {
			t.Errorf("CONNECT_REQUEST after Connect with FlowControl %v has %v", tc.connect, ev.Conn.FlowControl)
		}
		p.qpOf(p.passive)
		if ev := p.accepted(&cm.ConnParam{FlowControl: tc.accept}); ev.Conn.FlowControl != tc.accept {
			t.Errorf("CONNECT_RESPONSE after Accept with FlowControl %v has %v", tc.accept, ev.Conn.FlowControl)
		}
	}
}

// TestTheIDsQPOverridesTheParameters checks that srq and qp_num are taken from the ID's QP.
func TestTheIDsQPOverridesTheParameters(t *testing.T) {
	p := newRCPair(t)
	active := p.qpOf(p.active)
	if ev := p.request(&cm.ConnParam{SRQ: true, QPNum: active.Num() + 1}); ev.Conn.SRQ || ev.Conn.QPNum != active.Num() {
		t.Errorf("CONNECT_REQUEST of QP %d without an SRQ has %+v", active.Num(), ev.Conn)
	}
	passive := p.qpOf(p.passive)
	if ev := p.accepted(&cm.ConnParam{SRQ: true, QPNum: passive.Num() + 1}); ev.Conn.SRQ || ev.Conn.QPNum != passive.Num() {
		t.Errorf("CONNECT_RESPONSE of QP %d without an SRQ has %+v", passive.Num(), ev.Conn)
	}
	if a := p.query(active); a.DestQPNum != passive.Num() {
		t.Errorf("active QP: DestQPNum = %d, want %d", a.DestQPNum, passive.Num())
	}
}

// TestWithoutAQPTheParametersCount checks that srq and qp_num are the caller's if the ID has
// no QP.
func TestWithoutAQPTheParametersCount(t *testing.T) {
	p := newRCPair(t)
	if ev := p.request(&cm.ConnParam{SRQ: true, QPNum: 0x4711}); !ev.Conn.SRQ || ev.Conn.QPNum != 0x4711 {
		t.Errorf("CONNECT_REQUEST has %+v, want an SRQ and QP 0x4711", ev.Conn)
	}
	p.ok(p.passive.Accept(&cm.ConnParam{SRQ: true, QPNum: 0x4712}))
	if ev := p.next(p.client, p.active, cm.EventConnectResponse); !ev.Conn.SRQ || ev.Conn.QPNum != 0x4712 {
		t.Errorf("CONNECT_RESPONSE has %+v, want an SRQ and QP 0x4712", ev.Conn)
	}
	p.ok(p.active.Establish())
	p.next(p.server, p.passive, cm.EventEstablished)
}

// TestPrivateDataOfEachEvent checks that the call copies the private data, and that it arrives
// padded with zeros to the size of the message. This is true even if the private data is
// empty.
func TestPrivateDataOfEachEvent(t *testing.T) {
	is := func(t *testing.T, ev *cm.Event, want []byte) {
		t.Helper()
		if !bytes.Equal(ev.Conn.PrivateData, want) {
			t.Errorf("%v has %d bytes of private data %q, want %d", ev.Type, len(ev.Conn.PrivateData), ev.Conn.PrivateData, len(want))
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
	is(t, p.next(p.client, id, cm.EventRejected), nil) // the kernel rejects, and sends no private data
}
