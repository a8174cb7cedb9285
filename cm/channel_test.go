// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/verbs"
)

func newFakeID(t *testing.T, ch *EventChannel) *ID {
	t.Helper()
	id, err := ch.NewID(IDConfig{})
	if err != nil {
		t.Fatalf("NewID: %v", err)
	}
	return id
}

func mustNext(t *testing.T, ch *EventChannel) *Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	ev, err := ch.Next(ctx)
	if err != nil {
		t.Fatalf("Next: %v", err)
	}
	return ev
}

// TestAnyEventAnyTime queues random events for several IDs in random states. Each event
// reaches only its own ID, nothing panics, and the channel never fails.
func TestAnyEventAnyTime(t *testing.T) {
	ch, k := newFakeChannel(t)
	ids := make([]*ID, 5)
	for i := range ids {
		ids[i] = newFakeID(t, ch)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 20000 {
		id := ids[rnd.IntN(len(ids))]
		state := State(rnd.IntN(numStates))
		others := map[*ID]State{}
		for _, o := range ids {
			others[o] = o.State()
		}
		id.mu.Lock()
		id.state = state
		id.mu.Unlock()
		typ := EventType(rnd.IntN(numEvents + 3))
		if typ == EventConnectRequest || typ.multicast() {
			continue // see TestConnectRequest, TestMulticastEvents
		}
		k.queue(id.kid, typ, int32(rnd.IntN(300)-150))
		ev := mustNext(t, ch)
		ev.Ack()
		if ev.ID != id {
			t.Fatalf("step %d: event %v for %v was delivered to %v", i, typ, id, ev.ID)
		}
		if want := transition(state, typ, kindPlain).next; id.State() != want && ev.Type == typ {
			t.Fatalf("step %d: state after %v in %q = %q, want %q", i, typ, state, id.State(), want)
		}
		for o, s := range others {
			if o != id && o.State() != s {
				t.Fatalf("step %d: an event of %v changed the state of %v", i, id, o)
			}
		}
		_ = ev.String()
		if err := ev.Err(); err != nil && err.Error() == "" {
			t.Fatal("Err().Error() = \"\", want a text")
		}
	}
}

func TestEventsOfUnknownIDsAreDroppedAndCounted(t *testing.T) {
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	k.events <- abi.UcmEventResp{UID: 12345678, ID: 1, Event: uint32(EventEstablished)}
	k.events <- abi.UcmEventResp{UID: id.uid, ID: id.kid + 9, Event: uint32(EventEstablished)} // a reused uid
	k.events <- abi.UcmEventResp{UID: 0, ID: 0, Event: 0xffffffff}
	k.queue(id.kid, EventAddrChange, 0)
	if ev := mustNext(t, ch); ev.Type != EventAddrChange {
		t.Fatalf("Next() = %v, want ADDR_CHANGE", ev)
	}
	if n := ch.Dropped(); n != 3 {
		t.Errorf("Dropped() = %d, want 3", n)
	}
}

func TestConnectRequest(t *testing.T) {
	ch, k := newFakeChannel(t)
	l := newFakeID(t, ch)
	request := func(kid uint32) {
		k.mu.Lock()
		k.uids[kid] = 0
		k.mu.Unlock()
		k.events <- abi.UcmEventResp{UID: l.uid, ID: kid, Event: uint32(EventConnectRequest)}
	}
	request(70)
	ev := mustNext(t, ch)
	if ev.Type != EventConnectRequest || ev.Listener != l || ev.ID == l || ev.ID.kid != 70 || ev.ID.State() != StateRequested {
		t.Fatalf("Next() = %v from %v, want a CONNECT_REQUEST of ID 70 from the listener", ev, ev.Listener)
	}
	// Neither a request whose ID has been destroyed nor a request without a listener may have
	// an effect.
	k.events <- abi.UcmEventResp{UID: l.uid, ID: 71, Event: uint32(EventConnectRequest)}
	k.mu.Lock()
	k.uids[72] = 0
	k.mu.Unlock()
	k.events <- abi.UcmEventResp{UID: 999999, ID: 72, Event: uint32(EventConnectRequest)}
	request(73)
	if ev := mustNext(t, ch); ev.ID.kid != 73 {
		t.Fatalf("Next() = %v, want the request of ID 73", ev)
	}
	if _, ok := k.uids[72]; ok {
		t.Error("the ID of a request without a listener still exists")
	}
	if n := ch.Dropped(); n != 2 {
		t.Errorf("Dropped() = %d, want 2", n)
	}
}

// TestListedRequestIsComplete checks the IDs of the channel while Next takes connect requests. Close may close an ID as
// soon as the channel lists it.
func TestListedRequestIsComplete(t *testing.T) {
	ch, k := newFakeChannel(t)
	l := newFakeID(t, ch)
	var stop atomic.Bool
	done := make(chan struct{})
	defer func() { stop.Store(true); <-done }()
	go func() {
		defer close(done)
		for !stop.Load() {
			ch.mu.Lock()
			for _, id := range ch.ids {
				if id == l {
					continue
				}
				id.mu.Lock()
				if id.current() != StateRequested {
					t.Errorf("state of a listed request = %v, want %v", id.current(), StateRequested)
				}
				id.mu.Unlock()
			}
			ch.mu.Unlock()
			runtime.Gosched()
		}
	}()
	for i := range uint32(1000) {
		k.mu.Lock()
		k.uids[70+i] = 0
		k.mu.Unlock()
		k.events <- abi.UcmEventResp{UID: l.uid, ID: 70 + i, Event: uint32(EventConnectRequest)}
		if err := mustNext(t, ch).ID.Close(); err != nil {
			t.Fatalf("Close() = %v, want nil", err)
		}
	}
}

func TestDestroyWaitsForAcknowledgement(t *testing.T) {
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	k.queue(id.kid, EventAddrChange, 0)
	ev := mustNext(t, ch)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	err := id.Destroy(ctx)
	if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "RDMA_CM_EVENT_ADDR_CHANGE") {
		t.Fatalf("Destroy with an unacknowledged event = %v, want a passed deadline and ADDR_CHANGE", err)
	}
	time.AfterFunc(10*time.Millisecond, func() { ev.Ack(); ev.Ack() })
	if err := id.Destroy(context.Background()); err != nil {
		t.Fatalf("id.Destroy: %v", err)
	}
	if k.living() != 0 {
		t.Error("the ID still exists after Destroy")
	}
}

func TestAListenersRequestsCountAsItsEvents(t *testing.T) {
	ch, k := newFakeChannel(t)
	l := newFakeID(t, ch)
	k.mu.Lock()
	k.uids[50] = 0
	k.mu.Unlock()
	k.events <- abi.UcmEventResp{UID: l.uid, ID: 50, Event: uint32(EventConnectRequest)}
	ev := mustNext(t, ch)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := ev.ID.Destroy(ctx); err != nil {
		t.Errorf("Destroy of the request's ID = %v, want nil", err)
	}
	if err := l.Destroy(ctx); err == nil {
		t.Error("Destroy of the listener = nil, want an error, because of the request")
	}
}

func TestCloseIsIdempotentAndFinal(t *testing.T) {
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	for range 3 {
		if err := id.Close(); err != nil {
			t.Fatalf("id.Close: %v", err)
		}
	}
	if k.living() != 0 {
		t.Error("the ID still exists after Close")
	}
	for name, call := range map[string]func() error{
		"Bind":       func() error { return id.Bind(AddrFrom(mustAddr("10.0.0.1:1").AddrPort)) },
		"Listen":     func() error { return id.Listen(1) },
		"Disconnect": id.Disconnect,
		"Reject":     func() error { return id.Reject(nil) },
		"Migrate":    func() error { return id.Migrate(ch) },
	} {
		if err := call(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s after Close = %v, want net.ErrClosed", name, err)
		}
	}
	ch.Close()
	ch.Close()
	if _, err := ch.Next(context.Background()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Next after Close = %v, want net.ErrClosed", err)
	}
	if _, err := ch.NewID(IDConfig{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("NewID after Close = %v, want net.ErrClosed", err)
	}
}

// TestNoCommandHitsAReusedID closes IDs while other goroutines use them. The kernel assigns
// the number to a new ID at once. A late command would reach the new ID.
func TestNoCommandHitsAReusedID(t *testing.T) {
	ch, k := newFakeChannel(t)
	for range 200 {
		id := newFakeID(t, ch)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 20 {
					if err := id.Listen(1); errors.Is(err, syscall.ENOENT) {
						t.Error("Listen = ENOENT, so that the command was sent after DESTROY_ID")
					}
				}
			})
		}
		id.Close()
		wg.Wait()
	}
	if n := k.living(); n != 0 {
		t.Errorf("%d IDs left, want 0", n)
	}
}

func TestAFailedCommandLeavesTheState(t *testing.T) {
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	k.fail[abi.RDMA_USER_CM_CMD_RESOLVE_ADDR] = syscall.ENETUNREACH
	err := id.ResolveAddr(Addr{}, mustAddr("10.9.9.9:1"), time.Second)
	if !errors.Is(err, syscall.ENETUNREACH) || !strings.Contains(err.Error(), "resolve") || !strings.Contains(err.Error(), "10.9.9.9:1") {
		t.Errorf("ResolveAddr() = %v, want ENETUNREACH with the operation and the address", err)
	}
	if id.State() != StateIdle {
		t.Errorf("State() = %q, want idle", id.State())
	}
}

func TestMigrate(t *testing.T) {
	k := newFakeKernel() // one kernel behind both channels
	a, b := newEventChannel(newUcma(k), &verbs.Host{}), newEventChannel(newUcma(k), &verbs.Host{})
	id := newFakeID(t, a)
	if err := id.Migrate(b); err != nil {
		t.Fatalf("id.Migrate: %v", err)
	}
	if id.Channel() != b || b.find(id.uid) != id {
		t.Error("Channel() is not the new channel")
	}
	k.queue(id.kid, EventAddrChange, 0)
	if ev := mustNext(t, b); ev.ID != id {
		t.Errorf("Next() = %v, want an event of the ID", ev)
	}
	k.fail[abi.RDMA_USER_CM_CMD_MIGRATE_ID] = syscall.EINVAL
	if err := id.Migrate(a); !errors.Is(err, syscall.EINVAL) || id.Channel() != b || a.find(id.uid) != nil {
		t.Errorf("refused Migrate = %v, Channel() = %p, want EINVAL and the old channel", err, id.Channel())
	}
	b.Close()
	if err := id.Listen(1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Listen after the channel's Close = %v, want net.ErrClosed", err)
	}
}

func TestEventsIterator(t *testing.T) {
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	for range 3 {
		k.queue(id.kid, EventAddrChange, 0)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	for ev, err := range ch.Events(ctx) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Events: %v, want Canceled", err)
			}
			break
		}
		ev.Ack()
		if n++; n == 3 {
			cancel()
		}
	}
	if n != 3 {
		t.Errorf("Events returned %d events, want 3", n)
	}
}

func TestErrorsOfEvents(t *testing.T) {
	ch, _ := newFakeChannel(t)
	id := newFakeID(t, ch)
	for _, tc := range []struct {
		typ    EventType
		status int
		is     error
		words  string
	}{
		{EventAddrError, -int(syscall.ETIMEDOUT), syscall.ETIMEDOUT, "resolve"},
		{EventRouteError, -int(syscall.EINVAL), syscall.EINVAL, "route"},
		{EventUnreachable, -int(syscall.ETIMEDOUT), syscall.ETIMEDOUT, "does not answer"},
		{EventUnreachable, 1, nil, "status 1"},
		{EventRejected, RejectInvalidServiceID, syscall.ECONNREFUSED, "no listener"},
		{EventRejected, -int(syscall.ECONNREFUSED), syscall.ECONNREFUSED, "refused"},
		{EventRejected, RejectConsumer, syscall.ECONNREFUSED, "by the application"},
		{EventRejected, 99, syscall.ECONNREFUSED, "reason 99"},
		{EventRejected, -int(syscall.ECONNRESET), syscall.ECONNREFUSED, "by the peer"},
		{EventRejected, -int(syscall.ECONNRESET), syscall.ECONNRESET, "by the peer"},
		{EventConnectError, -int(syscall.EINVAL), syscall.EINVAL, "could not be completed"},
		{EventDisconnected, 0, syscall.ECONNRESET, "disconnected"},
		{EventEstablished, 0, nil, ""},
	} {
		err := (&Event{Type: tc.typ, Status: tc.status, ID: id}).Err()
		if (err == nil) != (tc.words == "") {
			t.Errorf("Err() of %v, status %d = %v, want an error: %v", tc.typ, tc.status, err, tc.words != "")
			continue
		}
		if tc.is != nil && !errors.Is(err, tc.is) {
			t.Errorf("Err() of %v, status %d = %v, want %v", tc.typ, tc.status, err, tc.is)
		}
		if err != nil && !strings.Contains(err.Error(), tc.words) {
			t.Errorf("Err() of %v, status %d = %q, want the text %q", tc.typ, tc.status, err, tc.words)
		}
	}
	timeout := (&Event{Type: EventUnreachable, Status: -int(syscall.ETIMEDOUT), ID: id}).Err()
	if ne, ok := timeout.(net.Error); !ok || !ne.Timeout() {
		t.Errorf("error %v is no timeout", timeout)
	}
	if fmt.Sprint(&Event{Type: EventRejected, Status: 8, ID: id}) == "" {
		t.Error("Event.String() = \"\", want a text")
	}
}

// TestRequestOnRemovedDevice checks that a request on a removed device is dropped. It is no
// failure of the listener, because a listener on all addresses keeps working.
func TestRequestOnRemovedDevice(t *testing.T) {
	ch, k := newFakeChannel(t)
	l := newFakeID(t, ch)
	k.mu.Lock()
	k.uids[70] = 0
	k.fail[abi.RDMA_USER_CM_CMD_QUERY] = syscall.ENXIO
	k.mu.Unlock()
	k.events <- abi.UcmEventResp{UID: l.uid, ID: 70, Event: uint32(EventConnectRequest)}
	k.queue(l.kid, EventAddrChange, 0)
	if ev := mustNext(t, ch); ev.Type != EventAddrChange {
		t.Errorf("Next() = %v, %v, want ADDR_CHANGE", ev, ev.Err())
	}
	if n := k.living(); n != 1 {
		t.Errorf("%d IDs, want only the listener", n)
	}
}
