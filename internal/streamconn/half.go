// SPDX-License-Identifier: Apache-2.0

package streamconn

import (
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Signal lets a goroutine wait until Set. In the meantime the goroutine polls for the protocol, so that
// no other goroutine runs between a completion and its user. Wait fails if it cannot poll.
type Signal interface {
	Wait(context.Context) error
	Set()
	Reset()
}

// PollAfter is the time without a waiting Read or Write after which a goroutine of the library polls for a
// protocol with Signals. Twice this time bounds the delay of the peer by a program that computes.
const PollAfter = time.Millisecond

// half is one direction of a connection. One goroutine at a time uses it and may wait, so one
// token is enough to wake it.
type half struct {
	mu       sync.Mutex // held by the goroutine that reads or writes
	wake     chan struct{}
	signal   Signal       // or nil
	closed   *atomic.Bool // of the connection
	deadline deadline
}

func (h *half) init(closed *atomic.Bool) {
	h.wake = make(chan struct{}, 1)
	h.closed = closed
	h.deadline.passed = h.poke
}

// poke makes the waiting goroutine check its condition again.
func (h *half) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
	if h.signal != nil {
		h.signal.Set()
	}
}

// reset makes the next sleep wait for a poke from now on.
func (h *half) reset() {
	if h.signal != nil {
		h.signal.Reset()
	}
}

// sleep waits until the next poke. It may return too early.
func (h *half) sleep() {
	if h.signal == nil || h.signal.Wait(context.Background()) != nil {
		<-h.wake
	}
}

// err returns net.ErrClosed after Close, os.ErrDeadlineExceeded after the deadline, and otherwise nil. As
// in package net, an expired deadline fails a call even if it would not have to wait.
func (h *half) err() error {
	switch {
	case h.closed.Load():
		return net.ErrClosed
	case h.deadline.expired.Load():
		return os.ErrDeadlineExceeded
	}
	return nil
}

// cause returns the error of a call that the protocol has failed. After Close it is net.ErrClosed, and not the
// protocol's error for a stream that has ended.
func (h *half) cause(err error) error {
	if h.closed.Load() {
		return net.ErrClosed
	}
	return err
}

// await calls try until it returns bytes or an error, and sleeps until the next poke in between.
// The caller holds mu.
func (h *half) await(try func() ([]byte, error)) ([]byte, error) {
	for {
		h.reset()
		if err := h.err(); err != nil {
			return nil, err
		}
		b, err := try()
		if err != nil {
			return nil, h.cause(err)
		}
		if len(b) > 0 {
			return b, nil
		}
		h.sleep()
	}
}

// deadline is a point in time after which a half fails its calls.
type deadline struct {
	mu      sync.Mutex
	at      time.Time // zero if there is none
	timer   *time.Timer
	expired atomic.Bool
	passed  func() // called when the deadline has passed
}

// set replaces the deadline. A zero time removes it, and a time in the past passes at once.
func (d *deadline) set(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at = at
	left := time.Until(at)
	d.expired.Store(!at.IsZero() && left <= 0)
	switch {
	case at.IsZero():
		d.stop()
	case left <= 0:
		d.stop()
		d.passed()
	case d.timer == nil:
		d.timer = time.AfterFunc(left, d.fire)
	default:
		d.timer.Reset(left)
	}
}

// stop stops the timer. The caller holds mu.
func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// fire runs when the timer expires. It compares the time with the deadline, because a timer of an earlier
// deadline may run late.
func (d *deadline) fire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if left := time.Until(d.at); d.at.IsZero() || left > 0 {
		return
	}
	d.expired.Store(true)
	d.passed()
}

// close stops the timer for good.
func (d *deadline) close() { d.set(time.Time{}) }
