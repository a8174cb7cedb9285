// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"context"
	"sync/atomic"

	"purerdma/internal/cdev"
)

// waiter is a goroutine that waits for a completion, as the leader of a hub or as a
// follower.
type waiter struct {
	// returns reports whether the wait is over. It takes no locks.
	returns func() bool

	// following is set while the goroutine waits for a token in ready.
	following atomic.Bool
	// ready is made when the goroutine follows for the first time. Few waiters ever do.
	ready chan struct{}

	// Guarded by hub.mu.
	leads bool         // the goroutine has to lead
	place link[waiter] // in hub.followers
}

func (w *waiter) init(returns func() bool) {
	w.returns, w.place.of = returns, w
}

// wakeFollower wakes the goroutine if it is a follower. A leader checks its state itself, or Finish wakes
// it.
func (w *waiter) wakeFollower() {
	if w.following.Load() {
		w.wake()
	}
}

// wake makes the goroutine check its state.
func (w *waiter) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// wait waits until w.returns, as leader or follower. It returns nil then, the error of ctx if ctx ends
// first, and the error of the CQ if the CQ cannot be polled.
func (h *hub) wait(ctx context.Context, w *waiter) error {
	h.mu.Lock()
	follow := h.leading
	if follow {
		if w.ready == nil {
			w.ready = make(chan struct{}, 1)
		}
		h.followers.push(&w.place)
		if h.patience > 0 && h.serverLeads.Load() {
			h.wanted.Store(true)
		}
	}
	h.leading = true
	h.mu.Unlock()
	if follow {
		if leads, err := h.follow(ctx, w); !leads {
			return err
		}
	}
	h.leader.Store(w)
	err := internals.Lead(h.cq, ctx, w.returns)
	h.leader.Store(nil)
	h.resign()
	return err
}

// follow sleeps until w.returns, ctx has ended, or the goroutine has to lead.
func (h *hub) follow(ctx context.Context, w *waiter) (leads bool, err error) {
	w.following.Store(true)
	defer w.following.Store(false)
	for {
		var ended bool
		if !w.returns() {
			select {
			case <-w.ready:
			case <-ctx.Done():
				ended = true
			}
		}
		h.mu.Lock()
		leads, w.leads = w.leads, false
		if done := w.returns(); leads || done || ended {
			if w.place.in {
				h.followers.remove(&w.place)
			}
			h.mu.Unlock()
			if ended && !done && !leads {
				err = cdev.ContextError(ctx)
			}
			return leads, err
		}
		h.mu.Unlock()
	}
}

// resign ends the leadership of the caller, and makes a follower the leader.
func (h *hub) resign() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := h.followers.pop(); w != nil; w = h.followers.pop() {
		if w.returns() {
			continue // it is about to return
		}
		w.leads = true
		w.wake()
		return
	}
	h.leading = false
	switch {
	case !h.standby:
	case h.patience > 0:
		h.awaitTakeOver()
	default:
		h.wakeServer()
	}
}
