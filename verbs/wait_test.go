// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"purerdma/internal/longtest"
	"purerdma/verbs"
)

// TestWaitersStress has, in each round, as many goroutines wait on some CQs of one channel as
// completions will arrive. Each goroutine waits for one completion. None of them waits again,
// so that no other wake-up can replace a lost one.
func TestWaitersStress(t *testing.T) { waitersStress(t, false, false) }

// TestImpatientWaitersStress is TestWaitersStress with waiters that give up at random, and may
// consume a wake-up when they do. They then wait again.
func TestImpatientWaitersStress(t *testing.T) { waitersStress(t, true, false) }

// TestDispatchStress is TestImpatientWaitersStress with one more waiter, whose completion never
// arrives. This waiter reads the channel for all others.
func TestDispatchStress(t *testing.T) { waitersStress(t, true, true) }

func waitersStress(t *testing.T, impatient, idle bool) {
	routes(t, func(t *testing.T, rt *route) {
		rounds := 200
		if longtest.Enabled() {
			rounds = 2000
		}
		if rt.fake == nil {
			rounds /= 2
		}
		dev := openDevice(t, rt.h, rt.a.Device)
		ch := createCompChannel(t, dev)
		var ends [][2]*end
		for range 3 {
			l, r := newEndOn(t, rt, ch), newEndOn(t, rt, ch)
			connect(t, l, r)
			l.cq.SetSpin(0)
			r.cq.SetSpin(0)
			ends = append(ends, [2]*end{l, r})
		}

		if idle {
			e := newEndOn(t, rt, ch)
			gone := make(chan error)
			go func() {
				_, err := e.cq.Wait(context.Background(), make([]verbs.WC, 1))
				gone <- err
			}()
			defer func() {
				if err := errors.Join(e.qp.Close(), e.cq.Close()); err != nil {
					t.Errorf("QP.Close and CQ.Close: %v", err)
				}
				if err := <-gone; !errors.Is(err, net.ErrClosed) {
					t.Errorf("Wait of the idle waiter = %v, want net.ErrClosed", err)
				}
			}()
		}

		var left atomic.Int64
		roundEnd := make(chan struct{}, 1)
		failed := make(chan error, 1)
		rng := rand.New(rand.NewPCG(7, 7))
		// slow lets other goroutines run for a while, at random.
		slow := func() {
			for range rng.IntN(4) {
				runtime.Gosched()
			}
			if rng.IntN(8) == 0 {
				time.Sleep(time.Duration(rng.IntN(50)) * time.Microsecond)
			}
		}
		timeout := time.NewTimer(time.Hour)
		for round := range rounds {
			var posts []*[2]*end
			for i := range ends {
				for range rng.IntN(4) {
					posts = append(posts, &ends[i])
				}
			}
			if len(posts) == 0 {
				continue
			}
			left.Store(int64(2 * len(posts)))
			for _, p := range posts {
				for _, e := range p {
					var give time.Duration
					if impatient && rng.IntN(2) == 0 {
						give = time.Duration(rng.IntN(100)) * time.Microsecond
					}
					go func() {
						if err := waitOne(e.cq, give); err != nil {
							select {
							case failed <- err: // not t.Error, because the test may have ended
							default:
							}
						}
						if left.Add(-1) == 0 {
							roundEnd <- struct{}{}
						}
					}()
				}
				slow()
			}
			for _, p := range posts {
				p[1].recv(t, verbs.RecvWR{ID: 1})
				p[0].send(t, verbs.SendWR{ID: 2, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
				slow()
			}
			timeout.Reset(10 * time.Second)
			select {
			case err := <-failed:
				t.Fatalf("waiter: %v", err)
			case <-roundEnd:
			case <-timeout.C:
				t.Fatalf("round %d: %d of %d waits did not end, because a wake-up was lost", round, left.Load(), 2*len(posts))
			}
		}
	})
}

// waitOne waits for one completion. If give is not 0, the first wait ends after this time, and
// waitOne waits again.
func waitOne(cq *verbs.CQ, give time.Duration) error {
	wcs := make([]verbs.WC, 1)
	if give > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), give)
		_, err := cq.Wait(ctx, wcs)
		cancel()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
	_, err := cq.Wait(context.Background(), wcs)
	return err
}

// newEndOn is newEnd on the route's first device, with a CQ on the channel ch.
func newEndOn(t *testing.T, rt *route, ch *verbs.CompChannel) *end {
	t.Helper()
	e := newEnd(t, rt.h, rt.a, verbs.QPCap{})
	if err := errors.Join(e.qp.Close(), e.cq.Close()); err != nil {
		t.Fatalf("QP.Close and CQ.Close: %v", err)
	}
	var err error
	e.cq = createCQ(t, e.dev, verbs.CQConfig{Channel: ch})
	if e.qp, err = e.pd.CreateQP(verbs.QPConfig{SendCQ: e.cq, RecvCQ: e.cq}); err != nil {
		t.Fatalf("PD.CreateQP: %v", err)
	}
	closer(t, e.qp)
	return e
}

// TestPingPong has two goroutines reply to each other. Both sleep each time.
func TestPingPong(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		rounds := 2000
		// One goroutine does this for both ends, because on iWARP a receiver must be ready.
		for _, e := range []*end{l, r} {
			e.cq.SetSpin(0)
			e.recv(t, verbs.RecvWR{SGList: []verbs.SGE{e.buf.Slice(0, 64)}})
		}
		start := time.Now()
		echo := make(chan error)
		go func() { echo <- pingPong(deadline(t), r, l, rounds, false) }()
		if err := pingPong(deadline(t), l, r, rounds, true); err != nil {
			t.Errorf("pingPong: %v", err)
		}
		if err := <-echo; err != nil {
			t.Errorf("pingPong of the peer: %v", err)
		}
		t.Logf("%v per round trip", time.Since(start)/time.Duration(rounds))
	})
}

func pingPong(ctx context.Context, e, peer *end, rounds int, first bool) error {
	recv := []verbs.RecvWR{{SGList: []verbs.SGE{e.buf.Slice(0, 64)}}}
	send := []verbs.SendWR{{Opcode: verbs.OpSend, SGList: []verbs.SGE{e.buf.Slice(64, 64)}}}
	wcs := make([]verbs.WC, 1)
	for i := range rounds {
		if first {
			send[0].Flags = 0
			if i%16 == 0 {
				send[0].Flags = verbs.SendSignaled
			}
			if _, err := e.qp.PostSend(send); err != nil {
				return err
			}
		}
		for got := false; !got; {
			if _, err := e.cq.Wait(ctx, wcs); err != nil {
				return err
			}
			if err := wcs[0].Err(); err != nil {
				return err
			}
			got = wcs[0].Opcode == verbs.WCRecv
		}
		if _, err := e.qp.PostRecv(recv); err != nil {
			return err
		}
		if !first {
			send[0].Flags = 0
			if i%16 == 0 {
				send[0].Flags = verbs.SendSignaled
			}
			if _, err := e.qp.PostSend(send); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestChannelNext serves CQs with one goroutine, as programs for librdmacm do.
func TestChannelNext(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		ctx := deadline(t)
		for i := range uint64(20) {
			solicited := i%2 == 0
			if err := r.cq.Arm(solicited); err != nil {
				t.Fatalf("CQ.Arm: %v", err)
			}
			r.recv(t, verbs.RecvWR{ID: i})
			l.send(t, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSolicited})
			cq, err := r.cq.Channel().Next(ctx)
			if err != nil || cq != r.cq {
				t.Fatalf("CompChannel.Next = %+v, %v, want %+v, nil", cq, err, r.cq)
			}
			wcs := make([]verbs.WC, 2)
			if n, err := r.cq.Poll(wcs); n != 1 || err != nil || wcs[0].ID != i {
				t.Fatalf("Poll after the event = %d, %v with %+v, want 1, nil with ID %d", n, err, wcs[0], i)
			}
		}
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if _, err := r.cq.Channel().Next(short); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Next without events = %v, want DeadlineExceeded", err)
		}
	})
}

// TestSolicited checks that a CQ that is armed only for solicited completions reports no event
// for other completions.
func TestSolicited(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		r.recv(t, verbs.RecvWR{ID: 1}, verbs.RecvWR{ID: 2})
		if err := r.cq.Arm(true); err != nil {
			t.Fatalf("CQ.Arm(true): %v", err)
		}
		ctx := deadline(t)
		poll := func(id uint64) {
			t.Helper()
			wcs := make([]verbs.WC, 2)
			if n, err := r.cq.Poll(wcs); n != 1 || err != nil || wcs[0].ID != id || wcs[0].Err() != nil {
				t.Fatalf("Poll = %d, %v with %+v, want success of receive %d", n, err, wcs[0], id)
			}
		}
		l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
		l.ok(t, 1)
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if cq, err := r.cq.Channel().Next(short); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("Next after a message that is not solicited = %v, %v, want DeadlineExceeded", cq, err)
		}
		poll(1)
		l.send(t, verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSolicited})
		if cq, err := r.cq.Channel().Next(ctx); err != nil || cq != r.cq {
			t.Fatalf("Next after a solicited message = %v, %v, want %v, nil", cq, err, r.cq)
		}
		poll(2)
	})
}
