// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"purerdma/verbs"
)

func write(l, r *end, id uint64) verbs.SendWR {
	return verbs.SendWR{ID: id, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, 8)}}
}

// TestWaiterGetsCompletionsOfPolls has another goroutine poll the expected completion. The
// Waiter must get it, both before it waits and while it waits.
func TestWaiterGetsCompletionsOfPolls(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		w := l.cq.NewWaiter()
		wcs := make([]verbs.WC, 4)
		for i := range uint64(50) {
			w.Expect(1000 + i)
			got := make(chan error, 1)
			wait := func() {
				wc, err := w.Wait(deadline(t))
				if err == nil && (wc.ID != 1000+i || wc.Err() != nil) {
					t.Errorf("Wait() = %+v, want the completion of request %d", wc, 1000+i)
				}
				got <- err
			}
			if i%2 == 0 {
				go wait()
			}
			// Waiting goroutines also poll the expected completion.
			l.send(t, write(l, r, 1000+i), write(l, r, 2000+i))
			n, err := l.cq.Wait(deadline(t), wcs)
			if err != nil || n != 1 || wcs[0].ID != 2000+i {
				t.Fatalf("CQ.Wait() = %+v, %v, want only the completion of request %d", wcs[:n], err, 2000+i)
			}
			if i%2 == 1 {
				go wait()
			}
			if err := <-got; err != nil {
				t.Fatalf("Waiter.Wait(): %v", err)
			}
		}
		if n, err := l.cq.Poll(wcs); n != 0 || err != nil {
			t.Errorf("Poll() = %+v, %v, want nothing", wcs[:n], err)
		}
	})
}

// TestWaiterPassesOtherCompletions has the Waiter poll other goroutines' completions first.
// These goroutines must get them in order, with Poll and with an earlier Wait.
func TestWaiterPassesOtherCompletions(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		w := l.cq.NewWaiter()
		l.send(t, write(l, r, 1), write(l, r, 2), write(l, r, 3))
		w.Expect(9)
		l.send(t, write(l, r, 9))
		if wc, err := w.Wait(deadline(t)); err != nil || wc.ID != 9 {
			t.Fatalf("Wait() = %+v, %v, want the completion of request 9", wc, err)
		}
		l.send(t, write(l, r, 4))
		var ids []uint64
		wcs := make([]verbs.WC, 2)
		for len(ids) < 4 {
			n, err := l.cq.Wait(deadline(t), wcs)
			if err != nil {
				t.Fatalf("CQ.Wait: %v", err)
			}
			for _, wc := range wcs[:n] {
				ids = append(ids, wc.ID)
			}
		}
		for i, id := range ids {
			if id != uint64(i+1) {
				t.Fatalf("completed IDs = %v, want 1 to 4", ids)
			}
		}
	})
}

// TestWaitersAndPollers has Waiters and two goroutines that wait on the same CQ. Each
// completion must go to the right goroutine.
func TestWaitersAndPollers(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		const waiters, rounds = 4, 200
		l, r := rt.pair(t, verbs.QPCap{SendWR: 64})
		l.cq.SetSpin(0)
		ctx, stop := context.WithCancel(deadline(t))
		var polled atomic.Int64
		var pollers, all sync.WaitGroup
		for range 2 {
			pollers.Go(func() {
				wcs := make([]verbs.WC, 1)
				for {
					n, err := l.cq.Wait(ctx, wcs)
					if err != nil {
						return
					}
					if wcs[0].ID >= 1<<32 {
						t.Errorf("CQ.Wait returned the completion of request %#x, which a Waiter expects", wcs[0].ID)
					}
					polled.Add(int64(n))
				}
			})
		}
		for i := range waiters {
			all.Go(func() {
				w := l.cq.NewWaiter()
				for k := range rounds {
					id := uint64(i+1)<<32 | uint64(k)
					w.Expect(id)
					if n, err := l.qp.PostSend([]verbs.SendWR{write(l, r, id), write(l, r, uint64(k))}); n != 2 {
						t.Errorf("PostSend = %d, %v, want 2, nil", n, err)
						return
					}
					if wc, err := w.Wait(ctx); err != nil || wc.ID != id {
						t.Errorf("Wait() = %+v, %v, want the completion of request %#x", wc, err, id)
						return
					}
				}
			})
		}
		all.Wait()
		for polled.Load() < waiters*rounds && !t.Failed() && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		stop()
		pollers.Wait()
		if n := polled.Load(); n != waiters*rounds {
			t.Errorf("the pollers got %d completions, want %d", n, waiters*rounds)
		}
	})
}

// TestWaiterEnds checks how Wait ends. After the end of its context, the completion is still
// expected. Wait also ends with Interrupt and with Close of the CQ. A completion that is no
// longer expected goes to pollers.
func TestWaiterEnds(t *testing.T) {
	rt := fakeRoute()
	l, r := rt.pair(t, verbs.QPCap{})
	w := l.cq.NewWaiter()
	w.Expect(5)
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := w.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait() = %v, want the context's error", err)
	}
	l.send(t, write(l, r, 5))
	if wc, err := w.Wait(deadline(t)); err != nil || wc.ID != 5 {
		t.Errorf("Wait() = %+v, %v, want the completion of request 5", wc, err)
	}
	w.Expect(6)
	w.Forget()
	l.send(t, write(l, r, 6))
	l.ok(t, 1)
	w.Expect(7)
	got := make(chan error, 1)
	go func() { _, err := w.Wait(deadline(t)); got <- err }()
	time.Sleep(10 * time.Millisecond)
	w.Interrupt()
	if err := <-got; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Wait() = %v after Interrupt, want %v", err, net.ErrClosed)
	}
	cq := createCQ(t, l.dev, verbs.CQConfig{})
	w = cq.NewWaiter()
	w.Expect(1)
	go func() { _, err := w.Wait(deadline(t)); got <- err }()
	time.Sleep(10 * time.Millisecond)
	cq.Close()
	if err := <-got; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Wait() = %v after Close, want %v", err, net.ErrClosed)
	}
}

// TestWaiterAllocatesNothing checks that a wait does not allocate, even if it sleeps.
func TestWaiterAllocatesNothing(t *testing.T) {
	l, r := fakeRoute().pair(t, verbs.QPCap{})
	w := l.cq.NewWaiter()
	wrs := []verbs.SendWR{write(l, r, 1)}
	ctx := deadline(t)
	if n := testing.AllocsPerRun(100, func() {
		w.Expect(1)
		l.qp.PostSend(wrs)
		if _, err := w.Wait(ctx); err != nil {
			t.Fatalf("Waiter.Wait: %v", err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
