// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"sync"
	"time"

	"purerdma/verbs"
)

// completions has the completions that the function of HandleCompletions has not taken.
type completions struct {
	fn func(wcs []verbs.WC, err error)

	mu      sync.Mutex // guards the following fields
	arrived []verbs.WC
	taken   []verbs.WC // of the current call of fn
	err     error      // the CQ can no longer be polled
	// calling is set while a goroutine calls fn, and after the call with the error.
	calling bool
}

// HandleCompletions makes fn take the completions of a CQ whose request IDs are at least 1<<63 and less
// than 3<<62. It is for protocols that post requests of their own. The CQ must have a completion channel,
// and neither a Queue nor a Receiver uses it. HandleCompletions is called once for a CQ, before a
// goroutine polls it.
//
// As with [Receiver.HandleLazily], a goroutine that waits for a [Signal] of the CQ polls, and calls fn. If
// no goroutine has waited or called [Signal.Poll] for the time after, which is positive, a goroutine of the
// library polls, at most as much later.
//
// fn is called by one goroutine at a time, with the completions in their order, and must not block. wcs is
// valid during the call. When the CQ has been closed, or cannot be polled for another reason, fn is called
// for the last time, with the error and no completions. The goroutine of the library finds this out.
func HandleCompletions(cq *verbs.CQ, fn func(wcs []verbs.WC, err error), after time.Duration) {
	h := hubOf(cq)
	h.others.Store(&completions{fn: fn})
	h.beLazy(after)
	h.owe(1) // until the CQ cannot be polled
}

// take adds a completion.
func (c *completions) take(wc *verbs.WC) {
	c.mu.Lock()
	c.arrived = append(c.arrived, *wc)
	c.mu.Unlock()
}

// fail makes the next callFunction report that the CQ can no longer be polled.
func (c *completions) fail(err error) {
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
}

// callFunction calls fn for the completions that have come, unless another goroutine is calling it. That
// goroutine then also takes the new ones.
func (c *completions) callFunction() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calling {
		return
	}
	c.calling = true
	for len(c.arrived) > 0 {
		c.arrived, c.taken = c.taken[:0], c.arrived
		c.call(c.taken, nil)
	}
	if c.err != nil {
		c.call(nil, c.err)
		return
	}
	c.calling = false
}

// call calls fn without the lock.
func (c *completions) call(wcs []verbs.WC, err error) {
	c.mu.Unlock()
	defer c.mu.Lock()
	c.fn(wcs, err)
}
