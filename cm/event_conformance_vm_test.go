// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestNextWaitsForAnEvent checks that Next returns when an event comes or its context ends,
// and not before.
func TestNextWaitsForAnEvent(t *testing.T) {
	p := newRCPair(t)
	p.qpOf(p.active)
	if _, err := p.server.Next(within(t, 50*time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Next() without an event = %v, want a passed deadline", err)
	}
	got := make(chan *cm.Event, 1)
	go func() {
		ev, err := p.server.Next(within(t, 10*time.Second))
		if err != nil {
			t.Errorf("Next: %v", err)
		}
		got <- ev
	}()
	select {
	case ev := <-got:
		t.Fatalf("Next() = %v before Connect, want it to wait", ev)
	case <-time.After(100 * time.Millisecond):
	}
	p.ok(p.active.Connect(&cm.ConnParam{}))
	ev := <-got
	if ev == nil || ev.Type != cm.EventConnectRequest {
		t.Fatalf("Next() = %v, want CONNECT_REQUEST", ev)
	}
	// Next with an ended context corresponds to a descriptor that does not block.
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if ev, err := p.server.Next(over); !errors.Is(err, context.Canceled) {
		t.Errorf("Next() with an ended context = %v, %v, want Canceled", ev, err)
	}
	ev.ID.Close()
	limit := within(t, 10*time.Second)
	ev, err := p.client.Next(over)
	for ; errors.Is(err, context.Canceled) && limit.Err() == nil; ev, err = p.client.Next(over) {
		time.Sleep(time.Millisecond) // until the event has come
	}
	if err != nil || ev.Type != cm.EventRejected && !lostRejection(ev) {
		t.Errorf("Next() with an ended context = %v, %v, want REJECTED", ev, err)
	}
}

// TestDestroyWaitsUntilEventsAreAcknowledged checks that Destroy waits only for the ID's own
// events.
func TestDestroyWaitsUntilEventsAreAcknowledged(t *testing.T) {
	p := newRCPair(t)
	p.qpOf(p.active)
	p.ok(p.active.Connect(&cm.ConnParam{}))
	ev, err := p.server.Next(within(t, 5*time.Second))
	p.ok(err)
	p.ok(p.active.Destroy(within(t, 10*time.Second)))
	// The event belongs to the listener, and not to its new ID.
	p.ok(ev.ID.Destroy(within(t, 10*time.Second)))
	err = p.listener.Destroy(within(t, 50*time.Millisecond))
	wantError(t, err, "destroy", os.ErrDeadlineExceeded, "RDMA_CM_EVENT_CONNECT_REQUEST")
	time.AfterFunc(50*time.Millisecond, ev.Ack)
	start := time.Now()
	p.ok(p.listener.Destroy(within(t, 5*time.Second)))
	if took := time.Since(start); took < 40*time.Millisecond {
		t.Errorf("Destroy() returned after %v, want at least 40ms", took)
	}
}

// TestTheActiveSideMayRejectTheResponse checks that the private data of the rejection reaches
// the passive side.
func TestTheActiveSideMayRejectTheResponse(t *testing.T) {
	p := newRCPair(t)
	p.request(&cm.ConnParam{QPNum: 0x4711})
	qp := p.qpOf(p.passive)
	p.ok(p.passive.Accept(nil))
	p.next(p.client, p.active, cm.EventConnectResponse)
	p.ok(p.active.Reject([]byte("changed my mind")))
	ev := p.next(p.server, p.passive, cm.EventRejected)
	if ev.Status != cm.RejectConsumer || !strings.HasPrefix(string(ev.Conn.PrivateData), "changed my mind\x00") {
		t.Errorf("REJECTED = %v, private data %q, want a consumer's rejection with \"changed my mind\"", ev, ev.Conn.PrivateData)
	}
	if qp.State() != verbs.QPErr {
		t.Errorf("QP state after the rejection = %v, want ERR", qp.State())
	}
}

// TestNotifyConfirms checks that Notify after the arrival of data replaces the confirmation,
// and that it does so only once.
func TestNotifyConfirms(t *testing.T) {
	p := newRCPair(t)
	p.request(&cm.ConnParam{QPNum: 0x4711})
	p.qpOf(p.passive)
	p.ok(p.passive.Accept(nil))
	p.next(p.client, p.active, cm.EventConnectResponse)
	p.quiet(p.server, 100*time.Millisecond)
	p.ok(p.passive.Notify(cm.CommEst))
	p.next(p.server, p.passive, cm.EventEstablished)
	wantError(t, p.passive.Notify(cm.CommEst), "notify", syscall.EISCONN)
	p.ok(p.active.Establish())
	p.quiet(p.server, 100*time.Millisecond)
}

// TestTimewaitExit checks that TIMEWAIT_EXIT comes after both sides have disconnected and the
// last packets have left the network.
func TestTimewaitExit(t *testing.T) {
	p := newRCPair(t)
	p.connect()
	qpn := p.active.QP().Num()
	p.disconnect()
	start := time.Now()
	p.next(p.client, p.active, cm.EventTimewaitExit)
	if took := time.Since(start); took < 100*time.Millisecond {
		t.Errorf("TIMEWAIT_EXIT came after %v, want at least 100ms", took)
	}
	p.next(p.server, p.passive, cm.EventTimewaitExit)
	// The number may be used again.
	again := p.resolved()
	p.ok(again.Connect(&cm.ConnParam{QPNum: qpn}))
	if ev := p.next(p.server, nil, cm.EventConnectRequest); ev.Conn.QPNum != qpn {
		t.Errorf("CONNECT_REQUEST of QP %d, want %d", ev.Conn.QPNum, qpn)
	}
}

// TestMigrationTakesPendingEvents checks that pending events and later events arrive on the
// new channel in their order.
func TestMigrationTakesPendingEvents(t *testing.T) {
	p := newRCPair(t)
	p.qpOf(p.active)
	p.request(nil)
	p.qpOf(p.passive)
	p.ok(p.passive.Accept(nil))
	p.next(p.client, p.active, cm.EventEstablished)
	p.ok(p.active.Disconnect())
	time.Sleep(200 * time.Millisecond) // ESTABLISHED and DISCONNECTED are now pending
	other := channel(t)
	p.ok(p.passive.Migrate(other))
	if p.passive.Channel() != other {
		t.Error("Channel() is not the new channel")
	}
	p.next(other, p.passive, cm.EventEstablished)
	p.next(other, p.passive, cm.EventDisconnected)
	p.ok(p.passive.Disconnect())
	p.next(p.client, p.active, cm.EventDisconnected)
	p.next(other, p.passive, cm.EventTimewaitExit)
	p.quiet(p.server, 10*time.Millisecond)
	// Closing the old channel has no effect on the ID.
	p.server.Close()
	if _, err := p.passive.QP().Query(); err != nil {
		t.Errorf("Query after the Close of the old channel: %v", err)
	}
}

// TestEveryIDHasItsOwnEvents checks that each of many IDs on one channel gets its own events.
func TestEveryIDHasItsOwnEvents(t *testing.T) {
	p := newRCPair(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// Requests with an odd number are rejected, the others are accepted.
	verdict := map[*cm.ID]cm.EventType{}
	ids := make([]*cm.ID, 6)
	for i := range ids {
		ids[i] = p.resolved()
		p.qpOf(ids[i])
	}
	for i, id := range ids {
		p.active = id
		p.request(nil)
		if i%2 == 1 {
			verdict[p.active] = cm.EventRejected
			p.ok(p.passive.Reject(nil))
			continue
		}
		verdict[p.active] = cm.EventEstablished
		p.qpOf(p.passive)
		p.ok(p.passive.Accept(nil))
		if vmtest.IWARP() { // the passive side does not wait for the active one
			p.next(p.server, p.passive, cm.EventEstablished)
		}
	}
	for len(verdict) > 0 {
		ev, err := p.client.Next(ctx)
		p.ok(err)
		ev.Ack()
		if want, ok := verdict[ev.ID]; !ok || ev.Type != want && !(want == cm.EventRejected && lostRejection(ev)) {
			t.Errorf("Next() = %v, want %v", ev, want)
		}
		delete(verdict, ev.ID)
	}
}
