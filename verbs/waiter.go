// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"purerdma/internal/cdev"
)

// Waiter waits for the completion of one request at a time, while other goroutines
// poll the CQ and wait on it: a completion that a Waiter expects goes to that Waiter,
// whoever polls it, and one that no Waiter expects goes to the others.
//
//	w := cq.NewWaiter()
//	w.Expect(7)
//	if _, err := qp.PostSend([]verbs.SendWR{{ID: 7, Flags: verbs.SendSignaled, ...}}); err != nil {
//		w.Forget()
//		return err
//	}
//	wc, err := w.Wait(ctx)
//
// The IDs of the requests that complete on the CQ meanwhile must differ from the
// expected one and from those that other Waiters expect. On the CQs of a cm.Conn, IDs
// from 1<<63 belong to the Conn. A Waiter is for one goroutine, except for Interrupt.
type Waiter struct {
	cq    *CQ
	wcs   [1]WC         // what it polls
	ready chan struct{} // one token: done or interrupted is set

	// Guarded by the lock of the CQ's dispatcher.
	id          uint64
	expects     bool
	done        bool // wc is the expected completion
	interrupted bool
	wc          WC
}

// dispatcher hands the completions of a CQ to its Waiters.
type dispatcher struct {
	// active counts the Waiters that expect a completion, and the completions in
	// aside: as long as it is 0 a poll looks at nothing else.
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

// Wait waits for the expected completion. Without Expect before it, it waits until its
// context ends. It returns ErrOverrun if the CQ has lost completions, a
// *DeviceRemovedError if the device is gone, the error of ctx when that ends
// first (os.ErrDeadlineExceeded, too, if its deadline passed), and net.ErrClosed after
// Interrupt or when the CQ is closed. After an error the completion is still expected.
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

// take reports whether the expected completion is there, and gives it to the caller.
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

// Forget ends Expect. A completion that comes afterwards goes to those who poll.
func (w *Waiter) Forget() {
	d := &w.cq.dispatch
	d.mu.Lock()
	defer d.mu.Unlock()
	w.done = false
	d.drop(w)
}

// Interrupt ends Wait with net.ErrClosed, now and later: nothing will complete any
// more. It may be called concurrently with the other methods.
func (w *Waiter) Interrupt() {
	d := &w.cq.dispatch
	d.mu.Lock()
	w.interrupted = true
	d.mu.Unlock()
	w.wake()
}

// wake has Wait look.
func (w *Waiter) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
	if ch := w.cq.ch; ch != nil {
		ch.interrupt() // it may be the one that reads the channel
	}
}

// readiness returns the channel by which w is woken, nil for no Waiter.
func (w *Waiter) readiness() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.ready
}

// drop ends that w expects a completion. The caller holds the lock.
func (d *dispatcher) drop(w *Waiter) {
	if w.expects {
		w.expects = false
		delete(d.waiters, w.id)
		d.active.Add(-1)
	}
}

// poll takes completions out of the queue and hands those that Waiters expect to these.
// w is the Waiter that polls, or nil for other callers: it leaves other completions
// aside, and gets 1 when its own is there or it was interrupted.
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

// sort is the part of dispatchPolled that looks at n polled completions.
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
		c.added()
	}
	return n
}
