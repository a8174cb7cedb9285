// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
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

// TestAnyEventAnyTime queues random events for several IDs in random states: each
// event reaches its ID and no other, nothing panics, and the channel never fails.
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
			continue // TestConnectRequest, TestMulticastEvents
		}
		k.queue(id.kid, typ, int32(rnd.IntN(300)-150))
		ev := mustNext(t, ch)
		ev.Ack()
		if ev.ID != id {
			t.Fatalf("step %d: event %v of %v came to %v", i, typ, id, ev.ID)
		}
		if want := transition(state, typ, kindPlain).next; id.State() != want && ev.Type == typ {
			t.Fatalf("step %d: %v in %q led to %q, want %q", i, typ, state, id.State(), want)
		}
		for o, s := range others {
			if o != id && o.State() != s {
				t.Fatalf("step %d: an event of %v changed %v", i, id, o)
			}
		}
		_ = ev.String()
		if err := ev.Err(); err != nil && err.Error() == "" {
			t.Fatal("an error without words")
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
		t.Fatalf("got %v", ev)
	}
	if n := ch.Dropped(); n != 3 {
		t.Errorf("%d dropped, want 3", n)
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
		t.Fatalf("got %v from %v", ev, ev.Listener)
	}
	// One whose ID is gone already, and one that nobody listens for: both must
	// vanish without a trace.
	k.events <- abi.UcmEventResp{UID: l.uid, ID: 71, Event: uint32(EventConnectRequest)}
	k.mu.Lock()
	k.uids[72] = 0
	k.mu.Unlock()
	k.events <- abi.UcmEventResp{UID: 999999, ID: 72, Event: uint32(EventConnectRequest)}
	request(73)
	if ev := mustNext(t, ch); ev.ID.kid != 73 {
		t.Fatalf("got %v", ev)
	}
	if _, ok := k.uids[72]; ok {
		t.Error("the ID of a request that nobody listens for was left behind")
	}
	if n := ch.Dropped(); n != 2 {
		t.Errorf("%d dropped, want 2", n)
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
		t.Fatalf("Destroy with an event held: %v", err)
	}
	time.AfterFunc(10*time.Millisecond, func() { ev.Ack(); ev.Ack() })
	if err := id.Destroy(context.Background()); err != nil {
		t.Fatalf("id.Destroy: %v", err)
	}
	if k.living() != 0 {
		t.Error("the ID lives on")
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
		t.Errorf("the request's own ID waited: %v", err)
	}
	if err := l.Destroy(ctx); err == nil {
		t.Error("the listener did not wait")
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
		t.Error("the ID lives on")
	}
	for name, call := range map[string]func() error{
		"Bind":       func() error { return id.Bind(AddrFrom(mustAddr("10.0.0.1:1").AddrPort)) },
		"Listen":     func() error { return id.Listen(1) },
		"Disconnect": id.Disconnect,
		"Reject":     func() error { return id.Reject(nil) },
		"Migrate":    func() error { return id.Migrate(ch) },
	} {
		if err := call(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	ch.Close()
	ch.Close()
	if _, err := ch.Next(context.Background()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Next after Close: %v", err)
	}
	if _, err := ch.NewID(IDConfig{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("NewID after Close: %v", err)
	}
}

// TestNoCommandHitsAReusedID closes IDs while others use them: the kernel gives
// the number to a new ID at once, and a late command would hit that one.
func TestNoCommandHitsAReusedID(t *testing.T) {
	ch, k := newFakeChannel(t)
	for range 200 {
		id := newFakeID(t, ch)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 20 {
					if err := id.Listen(1); errors.Is(err, syscall.ENOENT) {
						t.Error("a command was sent to an ID that is gone")
					}
				}
			})
		}
		id.Close()
		wg.Wait()
	}
	if n := k.living(); n != 0 {
		t.Errorf("%d IDs left", n)
	}
}

func TestAFailedCommandLeavesTheState(t *testing.T) {
	ch, k := newFakeChannel(t)
	id := newFakeID(t, ch)
	k.fail[abi.RDMA_USER_CM_CMD_RESOLVE_ADDR] = syscall.ENETUNREACH
	err := id.ResolveAddr(Addr{}, mustAddr("10.9.9.9:1"), time.Second)
	if !errors.Is(err, syscall.ENETUNREACH) || !strings.Contains(err.Error(), "resolve") || !strings.Contains(err.Error(), "10.9.9.9:1") {
		t.Errorf("got %v", err)
	}
	if id.State() != StateIdle {
		t.Errorf("state %q", id.State())
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
		t.Error("the ID did not move")
	}
	k.queue(id.kid, EventAddrChange, 0)
	if ev := mustNext(t, b); ev.ID != id {
		t.Errorf("got %v", ev)
	}
	k.fail[abi.RDMA_USER_CM_CMD_MIGRATE_ID] = syscall.EINVAL
	if err := id.Migrate(a); !errors.Is(err, syscall.EINVAL) || id.Channel() != b || a.find(id.uid) != nil {
		t.Errorf("a refused migration: %v, on %p", err, id.Channel())
	}
	b.Close()
	if err := id.Listen(1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closing the channel did not close the ID: %v", err)
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
				t.Error(err)
			}
			break
		}
		ev.Ack()
		if n++; n == 3 {
			cancel()
		}
	}
	if n != 3 {
		t.Errorf("%d events", n)
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
		{EventRejected, RejectInvalidServiceID, syscall.ECONNREFUSED, "nobody listens"},
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
			t.Errorf("%v %d: error %v", tc.typ, tc.status, err)
			continue
		}
		if tc.is != nil && !errors.Is(err, tc.is) {
			t.Errorf("%v %d: %v is not %v", tc.typ, tc.status, err, tc.is)
		}
		if err != nil && !strings.Contains(err.Error(), tc.words) {
			t.Errorf("%v %d: %q lacks %q", tc.typ, tc.status, err, tc.words)
		}
	}
	timeout := (&Event{Type: EventUnreachable, Status: -int(syscall.ETIMEDOUT), ID: id}).Err()
	if ne, ok := timeout.(net.Error); !ok || !ne.Timeout() {
		t.Errorf("%v is not a timeout", timeout)
	}
	if fmt.Sprint(&Event{Type: EventRejected, Status: 8, ID: id}) == "" {
		t.Error("an event without words")
	}
}

// TestARequestOnADeviceThatIsGone is gone, too. It is not the listener's failure: one
// on all addresses goes on.
func TestARequestOnADeviceThatIsGone(t *testing.T) {
	ch, k := newFakeChannel(t)
	l := newFakeID(t, ch)
	k.mu.Lock()
	k.uids[70] = 0
	k.fail[abi.RDMA_USER_CM_CMD_QUERY] = syscall.ENXIO
	k.mu.Unlock()
	k.events <- abi.UcmEventResp{UID: l.uid, ID: 70, Event: uint32(EventConnectRequest)}
	k.queue(l.kid, EventAddrChange, 0)
	if ev := mustNext(t, ch); ev.Type != EventAddrChange {
		t.Errorf("got %v: %v", ev, ev.Err())
	}
	if n := k.living(); n != 1 {
		t.Errorf("%d IDs, the listener's alone should be left", n)
	}
}
