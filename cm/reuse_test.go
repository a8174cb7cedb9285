// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"purerdma/abi"
	"purerdma/ucma"
	"purerdma/verbs"
)

// reader is a kernel that examines the memory of answers while it executes a command.
type reader struct {
	*fakeKernel
	free  func(answer unsafe.Pointer) // checks the memory of an answer against the pool
	event func()                      // runs while an event comes, and in the commands of its transition
	last  bool                        // an event has come
}

func (r *reader) Write(b []byte) error {
	if r.event != nil && r.last {
		r.event()
	}
	if binary.NativeEndian.Uint32(b) != abi.RDMA_USER_CM_CMD_INIT_QP_ATTR {
		return r.fakeKernel.Write(b)
	}
	r.free(pointerAt(b, 8))
	return syscall.EIO
}

func (r *reader) WriteWhenReadable(ctx context.Context, b []byte) error {
	if r.event != nil {
		r.last = true
		r.event()
	}
	err := r.fakeKernel.WriteWhenReadable(ctx, b)
	runtime.Gosched() // the other channels get events
	return err
}

// TestEventKeepsTurn checks that no other event can be fetched into the memory of a channel's event
// before the transition of that event.
func TestEventKeepsTurn(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	looked := 0
	r := &reader{fakeKernel: newFakeKernel()}
	var ch *EventChannel
	r.event = func() {
		looked++
		if ch.turn.Take(ended) == nil {
			t.Error("another goroutine can fetch an event")
			ch.turn.Give()
		}
	}
	ch = newEventChannel(ucma.New(r), &verbs.Host{})
	t.Cleanup(func() { ch.Close() })
	for range 10 {
		r.last = false
		id := newFakeID(t, ch)
		id.state = StateAddrQuery // the transition queries the device
		r.queue(id.kid, EventAddrResolved, 0)
		looked = 0
		if ev, err := ch.Next(t.Context()); err != nil || ev.ID != id || looked != 2 {
			t.Fatalf("Next() = %+v, %v after %d checks, want 2", ev, err, looked)
		}
	}
	r.event = nil
}

// TestEventsReuse fetches many events from several channels at the same time. Each channel must
// return its own.
func TestEventsReuse(t *testing.T) {
	// A channel drops the event of another channel. The wait for its own would then not end.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for g := range int32(8) {
		k := newFakeKernel()
		ch := newEventChannel(ucma.New(&reader{fakeKernel: k}), &verbs.Host{})
		t.Cleanup(func() { ch.Close() })
		id := newFakeID(t, ch)
		wg.Go(func() {
			for i := range int32(500) {
				want := 8*i + g
				k.queue(id.kid, EventAddrChange, want)
				ev, err := ch.Next(ctx)
				if err != nil || ev.ID != id || ev.Status != int(want) {
					t.Errorf("Next() = %+v, %v, want status %d", ev, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestMovesReuse checks that a move of a QP is not in the pool while the kernel writes to it,
// and that the pool then returns it once.
func TestMovesReuse(t *testing.T) {
	r := &reader{fakeKernel: newFakeKernel()}
	r.free = func(answer unsafe.Pointer) {
		var list []*move
		for range 4 {
			m := moves.Get().(*move)
			if unsafe.Pointer(&m.kernel) == answer {
				t.Error("a move in use is in the pool")
			}
			list = append(list, m)
		}
		for _, m := range list {
			moves.Put(m)
		}
	}
	ch := newEventChannel(ucma.New(r), &verbs.Host{})
	t.Cleanup(func() { ch.Close() })
	id := newFakeID(t, ch)
	for range 10 {
		if err := id.modifyQP(nil, verbs.QPInit, nil); !errors.Is(err, syscall.EIO) {
			t.Fatalf("modifyQP() = %v, want EIO", err)
		}
	}
	seen := map[any]bool{}
	for range 8 {
		m := moves.Get()
		if seen[m] {
			t.Error("the pool returned a move twice")
		}
		seen[m] = true
	}
}
