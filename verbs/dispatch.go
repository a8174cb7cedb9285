// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"sync"
	"sync/atomic"

	"purerdma/internal/bridge"
	"purerdma/internal/cdev"
)

// dispatchedIDs is the first request ID whose completions go to the handler of the CQ.
const dispatchedIDs = 1 << 63

// dispatcher passes the completions of a CQ to its handler, which is the table of package inflight,
// whichever goroutine polls them. It is unused on a CQ without a handler.
type dispatcher struct {
	// active is 1 if there is a handler, plus the number of completions in aside. While it is 0, a
	// poll has no further work.
	active atomic.Int32
	// mu is held while a CQ with a handler is polled. So the handler gets the completions in the
	// order of the queue.
	mu      sync.Mutex
	handler bridge.Handler[*WC]
	aside   []WC    // polled by the leader or by drain, for callers of Poll and Wait
	leader  *leader // nil without a handler
}

// leader is the one goroutine that waits for the completions of the handler, in lead.
type leader struct {
	stop  func() bool
	ready chan struct{} // has one token when stop may have changed
	wcs   [16]WC        // of its polls, and of drain. Guarded by dispatcher.mu
}

// stopped returns the channel that wakes the leader, nil if l is nil.
func (l *leader) stopped() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.ready
}

// dispatchTo implements bridge.Verbs.Handle.
func (c *CQ) dispatchTo(create func() bridge.Handler[*WC]) bridge.Handler[*WC] {
	d := &c.dispatch
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.handler == nil {
		d.handler = create()
		d.leader = &leader{ready: make(chan struct{}, 1)}
		d.active.Add(1)
	}
	return d.handler
}

// lead implements bridge.Verbs.Lead.
func (c *CQ) lead(ctx context.Context, stop func() bool) error {
	cdev.NeedContext(ctx)
	l := c.dispatch.leader
	l.stop = stop
	for !stop() {
		n, err := c.poll(l.wcs[:], l)
		if n == 0 && err == nil {
			_, err = c.wait(ctx, l.wcs[:], l)
		}
		if err != nil && !stop() {
			return c.dev.opError("wait for completions of", err)
		}
	}
	return nil
}

// wakeLeader implements bridge.Verbs.WakeLeader.
func (c *CQ) wakeLeader() {
	select {
	case c.dispatch.leader.ready <- struct{}{}:
	default:
	}
	if c.ch != nil {
		c.ch.interrupt() // the leader may be reading the channel
	}
}

// poll polls the queue and passes the completions of the handler to it. l is nil unless the leader
// polls. Other completions of a poll by the leader are set aside, and it returns 1 if the leader
// has to stop.
func (c *CQ) poll(wcs []WC, l *leader) (int, error) {
	if l == nil && c.dispatch.active.Load() == 0 {
		n, err := c.p.Poll(wcs)
		if n > 0 && c.dispatch.active.Load() != 0 {
			n = c.pass(wcs, n)
		}
		return n, err
	}
	for {
		polled, kept, err := c.pollDispatched(wcs, l != nil)
		c.dispatch.handler.Finish(l != nil)
		switch {
		case l != nil && l.stop():
			return 1, err
		case kept > 0 || polled == 0 || err != nil:
			return kept, err
		}
	}
}

// pollDispatched polls once. It returns the number of completions that it has polled, and the
// number of those in wcs that are for the caller. With setAside, these are set aside for other callers.
func (c *CQ) pollDispatched(wcs []WC, setAside bool) (polled, kept int, err error) {
	c.dispatch.mu.Lock()
	polled, kept, err = c.pollLocked(wcs, setAside)
	c.dispatch.mu.Unlock()
	return polled, kept, err
}

// pollLocked is pollDispatched for callers that hold the lock.
func (c *CQ) pollLocked(wcs []WC, setAside bool) (polled, kept int, err error) {
	d := &c.dispatch
	if !setAside && len(d.aside) > 0 { // older than those in the queue
		n := copy(wcs, d.aside)
		d.aside = append(d.aside[:0], d.aside[n:]...)
		d.active.Add(int32(-n))
		return n, n, nil
	}
	polled, err = c.p.Poll(wcs)
	if polled == 0 {
		d.handler.Empty()
	}
	kept = d.filter(wcs[:polled])
	if setAside && kept > 0 {
		d.aside = append(d.aside, wcs[:kept]...)
		d.active.Add(int32(kept))
		kept = 0
		if c.ch != nil {
			c.wakeAfterAdd()
		}
	}
	return polled, kept, err
}

// drain implements bridge.Verbs.Drain. It ends after as many completions as the CQ and the provider
// can hold, because other QPs may complete requests as fast as it polls.
func (c *CQ) drain() error {
	if c.dispatch.active.Load() == 0 {
		return nil
	}
	for left := 2 * c.p.Entries(); left > 0; {
		n, _, err := c.pollDispatched(c.dispatch.leader.wcs[:], true)
		c.dispatch.handler.Finish(false)
		if n == 0 || err != nil {
			return c.dev.opError("poll CQ of", err)
		}
		left -= n
	}
	return nil
}

// pass passes the handler its part of n completions that were polled before it was set. It returns
// the number of the others.
func (c *CQ) pass(wcs []WC, n int) int {
	d := &c.dispatch
	d.mu.Lock()
	n = d.filter(wcs[:n])
	d.mu.Unlock()
	d.handler.Finish(false)
	return n
}

// filter passes the completions of the handler to it and moves the others to the front. The caller
// holds the lock.
func (d *dispatcher) filter(wcs []WC) int {
	kept := 0
	for i := range wcs {
		if wcs[i].ID >= dispatchedIDs && d.handler.Complete(&wcs[i]) {
			continue
		}
		if kept != i {
			wcs[kept] = wcs[i]
		}
		kept++
	}
	return kept
}
