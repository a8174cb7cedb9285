// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"

	"purerdma/internal/cdev"
)

// Wait is Poll that waits until there is a completion. First it polls for a
// short while (see SetSpin), then it sleeps on the completion channel: no thread
// waits, only the goroutine. It returns the error of ctx when that ends first
// (os.ErrDeadlineExceeded, too, if its deadline passed); completions that are
// there already are returned also then. A CQ that is empty because it lost
// completions gives ErrOverrun to all who wait, and from then on.
//
// Any number of goroutines may wait on one CQ, and on several CQs of one channel.
// Each completion goes to one of them.
//
// A wait allocates nothing if its context is that of the last wait on this CQ
// that slept, or can never end. That context knows of the CQ until another one
// is waited with, or the CQ is closed.
func (c *CQ) Wait(ctx context.Context, wcs []WC) (int, error) {
	cdev.NeedContext(ctx)
	n, err := c.poll(wcs, nil)
	if n > 0 {
		return n, nil
	}
	if err == nil {
		n, err = c.wait(ctx, wcs, nil)
	}
	return n, c.dev.opError("wait for completions of", err)
}

// How nobody sleeps while there is something for him to do:
//
// An event says that an armed queue got a completion; an arm gives one event,
// however many completions follow. Events are read by one waiter at a time, who
// holds the turn of the channel. He takes those of his own queue as his, and for
// those of another he puts a token into that queue's notify.
//
// A waiter sleeps only after he has found the queue armed and then empty. From
// there on the first completion gives an event, and as only the reader consumes
// it, the reader wakes, or wakes him. The reader himself looks after he has got
// the turn: before that, another reader may have consumed the event.
//
// A waiter who leaves with some completions may leave others in the queue, whose
// event he has consumed or left unread, or a queue that is no longer armed: so he
// passes a token on to the waiters that remain. If one of these is the reader, he
// needs none: what came after he looked has an event that he has yet to read.
//
// A CQ that overruns puts a token into notify once. So a waiter looks whether it has
// after he was counted: he then sees it, or the token, or one of those who leave.

// wait is Wait without the first poll, for w if that is not nil.
func (c *CQ) wait(ctx context.Context, wcs []WC, w *Waiter) (int, error) {
	switch {
	case ctx.Err() != nil:
		return 0, cdev.ContextError(ctx)
	case c.ch == nil:
		return 0, errNoEvents
	case len(wcs) == 0:
		return 0, syscall.EINVAL
	case c.overrun.Load():
		return c.remains(wcs, w)
	}
	start := c.spin.start()
	n, err := c.spin.poll(c, w, start, wcs)
	if n == 0 && err == nil {
		c.waiters.Add(1)
		n, err = c.park(ctx, wcs, w)
		if c.waiters.Add(-1) > 0 {
			c.wake()
		}
	}
	c.spin.learn(start)
	return n, err
}

// wake has one waiter look at the queue.
func (c *CQ) wake() {
	select {
	case c.notify <- struct{}{}:
	default:
	}
}

// park sleeps until there are completions.
func (c *CQ) park(ctx context.Context, wcs []WC, w *Waiter) (int, error) {
	turn := c.ch.turn
	select {
	case turn <- struct{}{}:
		return c.read(ctx, wcs, w)
	default:
	}
	for {
		if n, err := c.armAndPoll(wcs, w); n > 0 || err != nil {
			return n, err
		}
		if c.overrun.Load() {
			return c.remains(wcs, w)
		}
		select {
		case turn <- struct{}{}:
			return c.read(ctx, wcs, w)
		case <-c.notify:
		case <-w.readiness():
		case <-ctx.Done():
			return 0, cdev.ContextError(ctx)
		case <-c.done:
			return 0, net.ErrClosed
		case <-c.dev.removed:
			return 0, net.ErrClosed
		}
		if n, err := c.poll(wcs, w); n > 0 || err != nil {
			return n, err
		}
	}
}

// read holds the turn, which it gives back, and reads events until there are
// completions.
func (c *CQ) read(ctx context.Context, wcs []WC, w *Waiter) (int, error) {
	ch := c.ch
	l := &ch.look
	l.cq, l.wcs, l.waiter = c, wcs, w
	defer func() {
		l.cq, l.wcs, l.waiter = nil, nil, nil
		<-ch.turn
	}()
	// An interrupt that comes late, or after this wait, hits the next reader, who
	// looks around and goes on.
	c.hook.Set(ctx, ch.interrupt)
	for {
		// What an interrupt may be about was there before it: after Resume it
		// is seen here.
		select {
		case <-c.done:
			return 0, net.ErrClosed
		default:
		}
		if ctx.Err() != nil {
			return 0, cdev.ContextError(ctx)
		}
		if c.overrun.Load() {
			return c.remains(wcs, w)
		}
		handle, ok, err := ch.ch.Next(l.fn)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			ch.ch.Resume()
			continue
		case err != nil:
			return 0, c.dev.eventError(err)
		case !ok:
			return l.n, l.err
		case handle == c.handle:
			c.fired()
			if n, err := c.poll(wcs, w); n > 0 || err != nil {
				return n, err
			}
		default:
			if other := ch.fired(handle); other != nil {
				other.wake()
			}
		}
	}
}
