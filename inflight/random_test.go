// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inflight_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"purerdma/inflight"
	"purerdma/verbs"
)

// marked is memory with the state of its use by the device.
type marked struct {
	t       *testing.T
	started atomic.Bool // the device may use it
	freed   atomic.Int32
}

func (m *marked) Free() {
	if m.started.Load() {
		m.t.Error("memory was freed while the device uses it")
	}
	if m.freed.Add(1) != 1 {
		m.t.Error("memory was freed twice")
	}
}

// TestRandomUse starts, waits for, abandons and withdraws operations at random, on several goroutines. The
// device completes them in order, and goes into the error state at random. Another goroutine polls,
// and the QP is closed in the end. Every operation ends once, and memory is
// freed once, never while the device uses it.
func TestRandomUse(t *testing.T) {
	for seed := range uint64(20) {
		randomUse(t, seed)
	}
}

func randomUse(t *testing.T, seed uint64) {
	cfg := inflight.Config{MaxReads: 3, SignalAll: seed%4 == 0}
	r := newRig(t, cfg, verbs.QPConfig{Cap: verbs.QPCap{SendWR: 8}})
	ctx, stop := context.WithCancel(context.Background())
	var memory sync.Map // by remote address: *marked
	var device, callers sync.WaitGroup
	device.Go(func() {
		rnd := rand.New(rand.NewPCG(seed, 1))
		status := verbs.WCSuccess
		for ctx.Err() == nil {
			n := r.hw.waiting()
			if n == 0 {
				time.Sleep(time.Duration(rnd.IntN(50)) * time.Microsecond)
				continue
			}
			wrs := r.hw.take(t, 1+rnd.IntN(n))
			for i := range wrs {
				if status == verbs.WCSuccess && rnd.IntN(200) == 0 {
					status = verbs.WCRetryExcErr
				}
				if m, ok := memory.Load(wrs[i].RemoteAddr); ok {
					m.(*marked).started.Store(false)
				}
				r.hw.complete(status, wrs[i])
				if status != verbs.WCSuccess {
					status = verbs.WCWRFlushErr
				}
			}
		}
	})
	device.Go(func() { // another goroutine that polls
		var wcs [2]verbs.WC
		for ctx.Err() == nil {
			r.qp.SendCQ().Poll(wcs[:])
			time.Sleep(20 * time.Microsecond)
		}
	})
	var functions, called atomic.Int32
	const goroutines, rounds = 6, 60
	var started, freed atomic.Int32
	for g := range goroutines {
		callers.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(2+g)))
			for i := range rounds {
				wr := write(1 + g*rounds + i)
				if rnd.IntN(3) == 0 {
					wr.Opcode = verbs.OpRead
				}
				m := &marked{t: t}
				m.started.Store(true) // from here on the device may use it
				memory.Store(wr.RemoteAddr, m)
				free := freeing{m, &freed}
				short, cancel := context.WithTimeout(ctx, time.Duration(rnd.IntN(300))*time.Microsecond)
				started.Add(1)
				switch rnd.IntN(3) {
				case 0:
					functions.Add(1)
					if err := r.Go(ctx, wr, quiet{free}, func(error) { called.Add(1) }); err != nil {
						functions.Add(-1)
					}
				case 1:
					p, err := r.Start(short, wr, quiet{free})
					if err == nil {
						finish(short, t, p)
					}
				default:
					p, err := r.Submit(wr, quiet{free})
					if err == nil {
						finish(short, t, p)
					}
				}
				cancel()
			}
		})
	}
	callers.Wait()
	if seed%2 == 0 { // let them complete
		for end := time.Now().Add(10 * time.Second); r.Pending() > 0 && time.Now().Before(end); {
			time.Sleep(100 * time.Microsecond)
		}
		if n := r.Pending(); n != 0 {
			t.Errorf("seed %d: %d operations have not completed", seed, n)
		}
	}
	stop()
	device.Wait()
	if err := r.qp.Close(); err != nil {
		t.Errorf("seed %d: QP.Close() = %v", seed, err)
	}
	for end := time.Now().Add(10 * time.Second); (freed.Load() < started.Load() || called.Load() < functions.Load()) && time.Now().Before(end); {
		time.Sleep(100 * time.Microsecond)
	}
	if freed.Load() != started.Load() || called.Load() != functions.Load() {
		t.Errorf("seed %d: %d of %d buffers freed, %d of %d functions called", seed, freed.Load(), started.Load(), called.Load(), functions.Load())
	}
}

// finish waits for an operation and abandons it when it takes too long.
func finish(ctx context.Context, t *testing.T, p inflight.Op) {
	err := p.Wait(ctx)
	if pending := new(inflight.PendingError); !errors.As(err, &pending) {
		var failed *verbs.WCError
		if err != nil && !errors.As(err, &failed) && !errors.Is(err, net.ErrClosed) {
			t.Errorf("Wait() = %v, want a status or %v", err, net.ErrClosed)
		}
		return
	}
	p.Abandon()
}

// freeing counts freed memory.
type freeing struct {
	m     *marked
	freed *atomic.Int32
}

// quiet is the Holder of freeing. The device may be done with memory whose completion was not
// yet polled, or never begin, when its request was not posted or the QP was closed.
type quiet struct{ freeing }

func (q quiet) Free() {
	if q.m.freed.Add(1) != 1 {
		q.m.t.Error("memory was freed twice")
	}
	q.freed.Add(1)
}
