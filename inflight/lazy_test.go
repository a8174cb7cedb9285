// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inflight_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"purerdma/inflight"
	"purerdma/verbs"
)

// TestPost posts requests without a waiting goroutine. Their memory is freed by Poll, and only a failure
// is reported.
func TestPost(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	var h held
	failures := make(chan error, 10)
	failed := func(err error) { failures <- err }
	for i := range 3 {
		if err := r.Post(write(i), &h, failed); err != nil {
			t.Fatalf("Post() = %v", err)
		}
	}
	wrs := r.hw.take(t, 3)
	r.hw.complete(verbs.WCSuccess, wrs[:2]...)
	sleep()
	if n := h.count(); n != 0 {
		t.Errorf("memory was freed %d times before Poll, want 0", n)
	}
	if err := r.Poll(); err != nil {
		t.Errorf("Poll() = %v", err)
	}
	if n := h.count(); n != 2 || r.Pending() != 1 {
		t.Errorf("memory was freed %d times after Poll with %d operations left, want 2 and 1", n, r.Pending())
	}
	r.hw.complete(verbs.WCRetryExcErr, wrs[2])
	if err := r.Poll(); err != nil {
		t.Errorf("Poll() = %v", err)
	}
	var wc *verbs.WCError
	if err := early(failures); !errors.As(err, &wc) || wc.Status != verbs.WCRetryExcErr {
		t.Errorf("failed was called with %v, want the status %q", err, verbs.WCRetryExcErr)
	}
	if n := h.count(); n != 3 || len(failures) != 0 {
		t.Errorf("memory was freed %d times with %d more failures, want 3 and 0", n, len(failures))
	}
}

// TestQuietPosts posts requests without memory, one at a time. Every 16th has a completion, which completes the others.
// Requests with memory all have one.
func TestQuietPosts(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	failures := make(chan error, 100)
	failed := func(err error) { failures <- err }
	signaled := func(n int, hold inflight.Holder) (count int) {
		t.Helper()
		for i := range n {
			if err := r.Post(write(i), hold, failed); err != nil {
				t.Fatalf("Post() = %v", err)
			}
			wrs := r.hw.take(t, 1)
			count += int(wrs[0].Flags & verbs.SendSignaled / verbs.SendSignaled)
			r.hw.complete(verbs.WCSuccess, wrs...)
		}
		if err := r.Poll(); err != nil {
			t.Errorf("Poll() = %v", err)
		}
		return count
	}
	if n := signaled(32, nil); n != 2 || r.Pending() != 0 {
		t.Errorf("completions of 32 requests without memory = %d with %d pending, want 2 with 0", n, r.Pending())
	}
	if n := signaled(5, new(held)); n != 5 {
		t.Errorf("completions of 5 requests with memory = %d, want 5", n)
	}
	if n := signaled(10, nil); n != 0 || r.Pending() != 10 {
		t.Errorf("completions of 10 requests without memory = %d with %d pending, want 0 with 10", n, r.Pending())
	}
	if err := r.Post(write(0), nil, failed); err != nil {
		t.Fatalf("Post() = %v", err)
	}
	r.hw.complete(verbs.WCRetryExcErr, r.hw.take(t, 1)...)
	if err := r.Poll(); err != nil {
		t.Errorf("Poll() = %v", err)
	}
	var wc *verbs.WCError
	if err := early(failures); !errors.As(err, &wc) || wc.Status != verbs.WCRetryExcErr {
		t.Errorf("failed was called with %v, want the status %q", err, verbs.WCRetryExcErr)
	}
	want := uint64(1) // failures
	for _, end := range []string{"flush", "reset", "Close"} {
		signaled(3, nil)
		var err error
		switch end {
		case "flush":
			want++ // of the request whose completion it is
			if err = r.Post(write(0), nil, failed); err == nil {
				r.hw.complete(verbs.WCWRFlushErr, r.hw.take(t, 1)...)
				err = r.Poll()
			}
			if failure := early(failures); failure == nil {
				t.Error("failed was not called for a flushed request")
			}
		case "reset":
			err = r.qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState)
		case "Close":
			err = r.qp.Close()
		}
		if err != nil {
			t.Errorf("%s = %v", end, err)
		}
		if n := r.Stats().Failed; len(failures) != 0 || n != want || r.Pending() != 0 {
			t.Errorf("after the %s: %d further failures, Stats().Failed = %d with %d pending, want 0, %d and 0", end, len(failures), n, r.Pending(), want)
		}
	}
}

// TestQuietPostBehindOthers posts a request without memory in one batch behind an operation. The batch has a
// completion, because a goroutine waits for the operation.
func TestQuietPostBehindOthers(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	release := heldPost(t, r)
	op := r.submit(t, 1, nil)
	if err := r.Post(write(2), nil, nil); err != nil {
		t.Fatalf("Post() = %v", err)
	}
	first := release()
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, 3)...)
	for i, p := range []inflight.Op{first, op} {
		if err := p.Wait(soon(t)); err != nil {
			t.Errorf("Wait() of operation %d = %v", i, err)
		}
	}
}

// TestQuietPostsFillTheQueue posts many more requests without memory than fit. Some of them have completions, so that
// all are posted.
func TestQuietPostsFillTheQueue(t *testing.T) {
	for _, depth := range []int{1, 2, 4, 64} {
		r := newRig(t, inflight.Config{}, verbs.QPConfig{Cap: verbs.QPCap{SendWR: depth}})
		n := 3*r.qp.Cap().SendWR + 20
		for i := range n {
			if err := r.Post(write(i), nil, nil); err != nil {
				t.Fatalf("Post(%d) = %v", i, err)
			}
		}
		for done := 0; done < n; {
			wrs := r.hw.take(t, 1)
			if wrs[0].RemoteAddr != uint64(done) {
				t.Fatalf("request %d is that of call %d, want the order of the calls", done, wrs[0].RemoteAddr)
			}
			r.hw.complete(verbs.WCSuccess, wrs...)
			done++
		}
	}
}

// TestEnqueue adds requests by Enqueue. Flush, or the post of another request, posts them with one doorbell, in their order.
func TestEnqueue(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	var h held
	enqueue := func(i int) {
		t.Helper()
		if err := r.Enqueue(write(i), &h, nil); err != nil {
			t.Fatalf("Enqueue(%d) = %v", i, err)
		}
	}
	for i, post := range []func(){
		r.Flush,
		func() {
			if err := r.Post(write(2), &h, nil); err != nil {
				t.Errorf("Post() = %v", err)
			}
		},
	} {
		enqueue(0)
		enqueue(1)
		if n := r.hw.waiting(); n != 0 || r.Pending() != 2 {
			t.Errorf("requests posted by Enqueue = %d of %d, want 0 of 2", n, r.Pending())
		}
		post()
		wrs := r.hw.take(t, 2+i)
		for k, wr := range wrs {
			if wr.RemoteAddr != uint64(k) {
				t.Errorf("request %d is that of call %d, want the order of the calls", k, wr.RemoteAddr)
			}
		}
		r.hw.complete(verbs.WCSuccess, wrs...)
		if err := r.Poll(); err != nil {
			t.Errorf("Poll() = %v", err)
		}
	}
	if c := r.hw.calls; !slices.Equal(c, []int{2, 3}) {
		t.Errorf("PostSend was called with %v requests, want [2 3]", c)
	}
	if n := h.count(); n != 5 {
		t.Errorf("memory was freed %d times, want 5", n)
	}
	enqueue(0)
	if err := r.qp.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	r.Flush()
	if n := h.count(); n != 6 {
		t.Errorf("memory was freed %d times after Close, want 6", n)
	}
	if err := r.Enqueue(write(0), &h, nil); !errors.Is(err, net.ErrClosed) || h.count() != 7 {
		t.Errorf("Enqueue() after Close = %v with %d pieces of memory freed, want %v with 7", err, h.count(), net.ErrClosed)
	}
}

// TestPostToAFullQueue posts more requests than fit. A goroutine takes the completions then, and
// posts the others.
func TestPostToAFullQueue(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	var h held
	depth := r.qp.Cap().SendWR
	for i := range depth + 2 {
		if err := r.Post(write(i), &h, nil); err != nil {
			t.Fatalf("Post(%d) = %v", i, err)
		}
	}
	r.hw.complete(verbs.WCSuccess, r.hw.take(t, depth)...)
	rest := r.hw.take(t, 2) // fails unless they are posted
	r.hw.complete(verbs.WCSuccess, rest...)
	for end := time.Now().Add(5 * time.Second); h.count() < depth+2; sleep() {
		if time.Now().After(end) {
			t.Fatalf("memory was freed %d times, want %d", h.count(), depth+2)
		}
	}
}

// TestHandleLazily takes messages while a goroutine waits for a Signal, and not before.
func TestHandleLazily(t *testing.T) {
	r := newRecvRig(t, 8, 1<<16)
	s := inflight.NewSignal(r.qp.RecvCQ())
	var taken atomic.Int32
	r.recv.HandleLazily(func(m *inflight.Message, err error) {
		if err != nil {
			return
		}
		m.Free()
		if taken.Add(1)%2 == 0 {
			s.Set()
		}
	}, 0)
	for round := range int32(3) {
		r.arrive(t)
		r.arrive(t)
		sleep()
		if n := taken.Load(); n != 2*round {
			t.Errorf("%d messages were taken before Wait, want %d", n, 2*round)
		}
		if err := s.Wait(soon(t)); err != nil {
			t.Errorf("Wait() = %v", err)
		}
		if n := taken.Load(); n != 2*round+2 {
			t.Errorf("%d messages were taken after Wait, want %d", n, 2*round+2)
		}
		if err := s.Wait(soon(t)); err != nil {
			t.Errorf("Wait() of a Signal that is set = %v", err)
		}
		s.Reset()
	}
	late, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Wait(late); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Wait() = %v, want %v", err, os.ErrDeadlineExceeded)
	}
}

// TestSignal sets Signals of a leader and of followers, from goroutines that do not poll.
func TestSignal(t *testing.T) {
	r := newRecvRig(t, 8, 1<<16)
	var signals []*inflight.Signal
	waits := make(chan error)
	for range 4 {
		s := inflight.NewSignal(r.qp.RecvCQ())
		signals = append(signals, s)
		go func() { waits <- s.Wait(soon(t)) }()
		sleep()
	}
	for _, i := range []int{2, 0, 3, 1} {
		signals[i].Set()
		if err := early(waits); err != nil {
			t.Errorf("Wait() of Signal %d = %v", i, err)
		}
	}
}

// lazyRig has a Receiver of HandleLazily, and a Signal that each message sets. byWaiter has for each message
// whether a goroutine that waits for the Signal, or polls, has taken it.
type lazyRig struct {
	*recvRig
	signal   *inflight.Signal
	byWaiter chan bool
}

func newLazyRig(t *testing.T, after time.Duration) *lazyRig {
	t.Helper()
	r := &lazyRig{recvRig: newRecvRig(t, 8, 1<<16), byWaiter: make(chan bool, 8)}
	r.signal = inflight.NewSignal(r.qp.RecvCQ())
	r.recv.HandleLazily(func(m *inflight.Message, err error) {
		if err != nil {
			return
		}
		m.Free()
		byWaiter := bytes.Contains(debug.Stack(), []byte("inflight.(*Signal)."))
		r.signal.Set()
		r.byWaiter <- byWaiter // after Set, so that a Reset after it lasts
	}, after)
	return r
}

// wait has a message arrive while a goroutine waits, and returns whether that goroutine has taken it.
func (r *lazyRig) wait(t *testing.T) bool {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- r.signal.Wait(soon(t)) }()
	sleep()
	r.arrive(t)
	if err := <-done; err != nil {
		t.Fatalf("Wait() = %v", err)
	}
	r.signal.Reset()
	return <-r.byWaiter
}

// TestLazyServerYields takes messages on the goroutine that waits for them, after a goroutine of the library
// has stopped polling for it.
func TestLazyServerYields(t *testing.T) {
	r := newLazyRig(t, time.Hour)
	r.arrive(t)
	if <-r.byWaiter {
		t.Errorf("a goroutine has taken a message in Wait, but none has called it")
	}
	r.signal.Reset()
	r.wait(t) // the goroutine of the library takes this message, and stops
	for i := range 3 {
		if !r.wait(t) {
			t.Errorf("message %d was taken by another goroutine than the waiting one", i+3)
		}
	}
}

// TestLazyServerTakesOver takes messages on a goroutine of the library when no goroutine has waited for a
// while.
func TestLazyServerTakesOver(t *testing.T) {
	r := newLazyRig(t, time.Millisecond)
	for range 3 {
		r.arrive(t)
		if <-r.byWaiter {
			t.Errorf("a goroutine has taken a message in Wait, but none has called it")
		}
		r.signal.Reset()
		r.wait(t)
	}
}

// TestLazyServerAndPoll takes messages by Poll. The goroutine of the library stops polling for a
// program that polls.
func TestLazyServerAndPoll(t *testing.T) {
	r := newLazyRig(t, 20*time.Millisecond)
	r.arrive(t)
	if <-r.byWaiter {
		t.Errorf("a goroutine has taken a message in Poll, but none has called it")
	}
	poll := func() {
		t.Helper()
		if err := r.signal.Poll(); err != nil {
			t.Fatalf("Poll() = %v", err)
		}
	}
	poll() // the goroutine of the library takes the next message, and stops
	r.arrive(t)
	<-r.byWaiter
	taken := 0
	for end := time.Now().Add(5 * time.Second); taken < 3 && time.Now().Before(end); {
		r.arrive(t)
		poll()
		if <-r.byWaiter {
			taken++
		}
	}
	if taken < 3 {
		t.Errorf("Poll() has taken %d messages in 5 s, want 3", taken)
	}
}

// TestPollWhileAnotherWaits leaves the messages to the goroutine that waits.
func TestPollWhileAnotherWaits(t *testing.T) {
	r := newLazyRig(t, 0)
	other := inflight.NewSignal(r.qp.RecvCQ())
	done := make(chan error, 1)
	go func() { done <- r.signal.Wait(soon(t)) }()
	sleep()
	if err := other.Poll(); err != nil {
		t.Errorf("Poll() = %v", err)
	}
	r.arrive(t)
	if err := early(done); err != nil {
		t.Errorf("Wait() = %v", err)
	}
}
