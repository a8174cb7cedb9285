// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"purerdma/internal/cdev"
)

// Waiter waits for the completion of one request at a time, while other goroutines poll the CQ and
// wait on it. An expected completion goes to its Waiter, even if another goroutine polls it. All
// other completions go to the other goroutines.
//
//	w := cq.NewWaiter()
//	w.Expect(7)
//	if _, err := qp.PostSend([]verbs.SendWR{{ID: 7, Flags: verbs.SendSignaled, ...}}); err != nil {
//		w.Forget()
//		return err
//	}
//	wc, err := w.Wait(ctx)
//
// The ID must be unique among the outstanding requests of the CQ and the IDs that other Waiters
// expect. On the CQs of a cm.Conn, IDs from 1<<63 belong to the Conn. A Waiter is for one
// goroutine, except for Interrupt.
type Waiter struct {
	cq    *CQ
	wcs   [1]WC         // buffer of its polls
	ready chan struct{} // has one token after done or interrupted was set

	// Guarded by the lock of the CQ's dispatcher.
	id          uint64
	expects     bool
	done        bool // wc is the expected completion
	interrupted bool
	wc          WC
}

// dispatcher hands the completions of a CQ to its Waiters.
type dispatcher struct {
	// active counts the Waiters that expect a completion, and the completions in aside. While it is
	// 0, a poll has no further work.
	active  atomic.Int32
	mu      sync.Mutex
	waiters map[uint64]*Waiter // by the expected ID
	aside   []WC               // polled by Waiters that did not expect them
}

// NewWaiter returns a Waiter of the CQ. There is nothing to close.
func (c *CQ) NewWaiter() *Waiter {
	return &Waiter{cq: c, ready: make(chan struct{}, 1)}
}

// Expect directs the next completion with this ID to w, once. It is called before the
// request is posted, and not while w expects another completion.
func (w *Waiter) Expect(id uint64) {
	d := &w.cq.dispatch
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiters == nil {
		d.waiters = make(map[uint64]*Waiter)
	}
	select { // a token that an earlier Wait has left
	case <-w.ready:
	default:
	}
	w.id, w.expects, w.done = id, true, false
	d.waiters[id] = w
	d.active.Add(1)
}

// Wait waits for the expected completion. Without Expect before it, it waits until its context
// ends. It returns ErrOverrun if the CQ has lost completions, and a *DeviceRemovedError if the
// device was removed. It returns the error of ctx when that ends first (os.ErrDeadlineExceeded if
// its deadline passed). It returns net.ErrClosed after Interrupt or when the CQ is closed. After an
// error the completion is still expected.
func (w *Waiter) Wait(ctx context.Context) (WC, error) {
	cdev.NeedContext(ctx)
	c := w.cq
	n, err := c.poll(w.wcs[:], w)
	if n == 0 && err == nil {
		_, err = c.wait(ctx, w.wcs[:], w)
	}
	if w.take() {
		return w.wc, nil
	}
	if w.isInterrupted() {
		err = net.ErrClosed
	}
	return WC{}, c.dev.opError("wait for completions of", err)
}

// take reports whether the expected completion has arrived, and clears that flag.
func (w *Waiter) take() bool {
	d := &w.cq.dispatch
	d.mu.Lock()
	defer d.mu.Unlock()
	done := w.done
	w.done = false
	return done
}

func (w *Waiter) isInterrupted() bool {
	d := &w.cq.dispatch
	d.mu.Lock()
	defer d.mu.Unlock()
	return w.interrupted
}

// Forget undoes Expect. A later completion goes to the goroutines that poll.
func (w *Waiter) Forget() {
	d := &w.cq.dispatch
	d.mu.Lock()
	defer d.mu.Unlock()
	w.done = false
	d.drop(w)
}

// Interrupt ends Wait with net.ErrClosed, now and later, because no more requests will complete. It
// may be called concurrently with the other methods.
func (w *Waiter) Interrupt() {
	d := &w.cq.dispatch
	d.mu.Lock()
	w.interrupted = true
	d.mu.Unlock()
	w.wake()
}

// wake makes Wait check its state.
func (w *Waiter) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
	if ch := w.cq.ch; ch != nil {
		ch.interrupt() // w may be reading the channel
	}
}

// readiness returns the channel that wakes w, nil if w is nil.
func (w *Waiter) readiness() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.ready
}

// drop undoes Expect. The caller holds the lock.
func (d *dispatcher) drop(w *Waiter) {
	if w.expects {
		w.expects = false
		delete(d.waiters, w.id)
		d.active.Add(-1)
	}
}

// poll takes completions out of the queue and passes expected ones to their Waiters. w is the
// polling Waiter, or nil for other callers. A poll of a Waiter sets other completions aside, and
// returns 1 after its own completion or an interrupt.
func (c *CQ) poll(wcs []WC, w *Waiter) (int, error) {
	n, err := c.p.Poll(wcs)
	return c.dispatchPolled(wcs, n, err, w)
}

// dispatchPolled is poll after the provider has returned n completions and err. It polls
// again while Waiters expect all of them.
func (c *CQ) dispatchPolled(wcs []WC, n int, err error, w *Waiter) (int, error) {
	for w != nil || c.dispatch.active.Load() != 0 {
		kept := c.sort(wcs, n, w)
		if kept > 0 || n == 0 || err != nil {
			return kept, err
		}
		n, err = c.p.Poll(wcs)
	}
	return n, err
}

// sort is the part of dispatchPolled that processes n polled completions.
func (c *CQ) sort(wcs []WC, n int, w *Waiter) int {
	d := &c.dispatch
	var woken []*Waiter
	kept := wcs[:0]
	d.mu.Lock()
	for i := range wcs[:n] {
		to := d.waiters[wcs[i].ID]
		if to == nil {
			kept = append(kept, wcs[i])
			continue
		}
		d.drop(to)
		to.wc, to.done = wcs[i], true
		if to != w {
			woken = append(woken, to)
		}
	}
	n = len(kept)
	left := w != nil && n > 0
	switch {
	case w != nil:
		d.aside = append(d.aside, kept...)
		d.active.Add(int32(n))
		n = 0
		if w.done || w.interrupted {
			n = 1
		}
	case len(d.aside) > 0: // the older ones first
		all := append(d.aside, kept...)
		n = copy(wcs, all)
		d.active.Add(int32(len(all) - n - len(d.aside)))
		d.aside = all[n:]
	}
	d.mu.Unlock()
	for _, to := range woken {
		to.wake()
	}
	if left && c.ch != nil {
		c.wakeAfterAdd()
	}
	return n
}
