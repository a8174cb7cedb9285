// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"context"
	"sync/atomic"

	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// Signal lets a goroutine wait until the function of a Receiver, of a Queue or of HandleCompletions calls Set. The waiting
// goroutine polls the CQ itself, or another waiting goroutine polls for it, as with Op.Wait. So no other
// goroutine runs between a completion and its user. One goroutine at a time waits for a Signal. Set may be
// called by any goroutine.
type Signal struct {
	hub    *hub
	waiter waiter
	set    atomic.Bool
}

// NewSignal returns a Signal for waits that poll a CQ, which must have a completion channel.
func NewSignal(cq *verbs.CQ) *Signal {
	s := &Signal{hub: hubOf(cq)}
	s.waiter.init(s.set.Load)
	return s
}

// Set ends the current wait, or the next one.
func (s *Signal) Set() {
	s.set.Store(true)
	s.waiter.wakeFollower()
	if s.hub.leader.Load() == &s.waiter && !s.hub.finishing.Load() {
		internals.WakeLeader(s.hub.cq)
	}
}

// Reset makes the next Wait wait for another Set. No goroutine may be waiting.
func (s *Signal) Reset() { s.set.Store(false) }

// Poll takes the available completions from the CQ and returns, as a wait would, unless another goroutine
// polls it at the time. It is for goroutines that compute for long between two waits, or wait for something
// else. After a Poll the goroutine of [Receiver.HandleLazily] or [HandleCompletions] does not poll until its
// time has passed again. Poll returns the error of a CQ that cannot be polled.
func (s *Signal) Poll() error {
	h := s.hub
	if h.leader.Load() != nil || h.serverLeads.Load() {
		h.wantLead()
		return nil
	}
	h.polled.Store(true)
	return internals.Drain(h.cq)
}

// Wait waits for Set. It returns the error of ctx if that ends first, and the error of verbs.CQ.Wait if
// the CQ cannot be polled.
func (s *Signal) Wait(ctx context.Context) error {
	cdev.NeedContext(ctx)
	if s.set.Load() {
		return nil
	}
	err := s.hub.wait(ctx, &s.waiter)
	switch {
	case s.set.Load():
		return nil
	case ctx.Err() != nil:
		return cdev.ContextError(ctx)
	}
	return err
}
