// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/internal/bridge"
	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// internals holds the functions that package verbs does not export.
var internals = bridge.Functions.(*bridge.Verbs[*verbs.Host, *verbs.Device, *verbs.QP, *verbs.CQ, *verbs.WC])

// hub dispatches the completions of one CQ to the operations of its queues.
//
// One of the goroutines that wait for operations polls the CQ for all of them: the leader. The
// others, the followers, sleep until their operation has completed. A leader whose operation has
// completed makes a follower the leader. So a single goroutine polls for itself, without
// another goroutine between the completion and it.
//
// No goroutine waits for operations with a function, and for abandoned ones. A goroutine of the
// hub leads when there are such operations and no other goroutine does. It ends when there have been
// none for a while.
//
// Locks are taken in this order: the CQ's, Queue.mu, hub.mu.
type hub struct {
	cq *verbs.CQ

	// queues is indexed by the request IDs. It is replaced when it grows.
	queues atomic.Pointer[[]atomic.Pointer[Queue]]

	// leaderOp is the operation of the leading goroutine, nil if there is none or the hub's goroutine
	// leads, which serverLeads records.
	leaderOp    atomic.Pointer[op]
	serverLeads atomic.Bool
	// owed is the number of operations in flight that no goroutine waits for.
	owed atomic.Int32
	// work is set if calls or posts may have elements.
	work atomic.Bool

	mu        sync.Mutex // guards the following fields
	leading   bool       // a goroutine leads, or is about to
	followers followerList
	// serving is set while the hub's goroutine runs. It waits for a token in serve while lingers or
	// standby is set. lingers means that nothing is owed. standby means that another goroutine leads.
	serving bool
	lingers bool
	standby bool
	serve   chan struct{}

	// dead is the error after which no more completions can be received.
	dead error
	// calls lists the completed operations whose functions are to be called.
	calls opList
	// posts lists the queues that may have pending operations and room.
	posts *Queue

	unused []uint32 // free indexes of queues
	gens   []uint16 // uses of each index
}

// Parts of a request ID: the bit 63, the index of the queue, the generation of that index, and the
// sequence number.
const (
	ownIDs     = 1 << 63
	indexShift = 43
	indexMask  = 1<<20 - 1
	genShift   = 32
	genMask    = 1<<11 - 1
)

var errTooMany = errors.New("more than a million queues on one CQ")

// hubOf returns the hub of a CQ.
func hubOf(cq *verbs.CQ) *hub {
	return internals.Handle(cq, func() bridge.Handler[*verbs.WC] {
		h := &hub{cq: cq, serve: make(chan struct{}, 1)}
		none := make([]atomic.Pointer[Queue], 0)
		h.queues.Store(&none)
		return h
	}).(*hub)
}

// add assigns request IDs to a queue.
func (h *hub) add(q *Queue) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var index uint32
	if n := len(h.unused); n > 0 {
		index, h.unused = h.unused[n-1], h.unused[:n-1]
	} else {
		index = uint32(len(h.gens))
		if index > indexMask {
			return errTooMany
		}
		h.gens = append(h.gens, 0)
	}
	old := *h.queues.Load()
	if int(index) >= len(old) {
		grown := make([]atomic.Pointer[Queue], max(4, 2*len(old)))
		for i := range old {
			grown[i].Store(old[i].Load())
		}
		h.queues.Store(&grown)
	}
	h.gens[index]++
	q.base = ownIDs | uint64(index)<<indexShift | uint64(h.gens[index]&genMask)<<genShift
	(*h.queues.Load())[index].Store(q)
	return nil
}

// remove releases the IDs of a queue. Completions that the CQ still has are dropped.
func (h *hub) remove(q *Queue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unused = append(h.unused, uint32(q.base>>indexShift&indexMask))
}

// Complete implements bridge.Handler.
func (h *hub) Complete(wc *verbs.WC) bool {
	queues := *h.queues.Load()
	index := wc.ID >> indexShift & indexMask
	if index >= uint64(len(queues)) {
		return false
	}
	q := queues[index].Load()
	if q == nil {
		return false
	}
	if wc.ID&^(1<<genShift-1) != q.base || wc.QPNum != q.qp.Num() {
		return wc.ID>>indexShift == q.base>>indexShift && wc.ID>>genShift != q.base>>genShift // of an earlier queue
	}
	q.mu.Lock()
	q.arrived(uint32(wc.ID), wc)
	q.mu.Unlock()
	return true
}

// Finish implements bridge.Handler. It calls functions and posts pending operations.
func (h *hub) Finish(leader bool) {
	if h.work.Load() {
		h.doWork()
	}
	if !leader {
		h.wakeDone()
	}
}

// wakeDone wakes the leader if it has nothing more to wait for.
func (h *hub) wakeDone() {
	if o := h.leaderOp.Load(); o != nil && o.returns() || h.serverLeads.Load() && h.owed.Load() <= 0 {
		internals.WakeLeader(h.cq)
	}
}

func (h *hub) doWork() {
	h.mu.Lock()
	calls, posts := h.calls, h.posts
	h.calls, h.posts = opList{}, nil
	h.work.Store(false)
	h.mu.Unlock()
	for q := posts; q != nil; {
		q.mu.Lock()
		next := q.nextPost
		q.nextPost, q.waits = nil, false
		q.post()
		q.mu.Unlock()
		q = next
	}
	for o := calls.first; o != nil; o = calls.first {
		calls.remove(o)
		q := o.q
		o.fn(o.result())
		q.mu.Lock()
		q.release(o)
		q.mu.Unlock()
		h.owe(-1)
	}
}

// callLater has Finish call the function of an operation.
func (h *hub) callLater(o *op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls.push(o)
	h.work.Store(true)
}

// postLater has Finish post the pending operations of a queue. The caller holds the lock of
// the queue.
func (h *hub) postLater(q *Queue) {
	if q.waits {
		return
	}
	q.waits = true
	h.mu.Lock()
	defer h.mu.Unlock()
	q.nextPost, h.posts = h.posts, q
	h.work.Store(true)
}

// wait waits for an operation, as leader or follower. Its error is nil if the operation has
// completed.
func (h *hub) wait(ctx context.Context, o *op) error {
	h.mu.Lock()
	follow := h.leading
	if follow {
		h.followers.push(o)
	}
	h.leading = true
	h.mu.Unlock()
	if follow {
		if leads, err := h.follow(ctx, o); !leads {
			return err
		}
	}
	h.leaderOp.Store(o)
	err := internals.Lead(h.cq, ctx, o.isReady)
	h.leaderOp.Store(nil)
	h.resign()
	return err
}

// follow sleeps until the operation has completed, ctx has ended, or the goroutine has to
// lead.
func (h *hub) follow(ctx context.Context, o *op) (leads bool, err error) {
	o.following.Store(true)
	defer o.following.Store(false)
	for {
		var ended bool
		if !o.returns() {
			select {
			case <-o.ready:
			case <-ctx.Done():
				ended = true
			}
		}
		h.mu.Lock()
		leads, o.leads = o.leads, false
		if done := o.returns(); leads || done || ended {
			if o.follows {
				h.followers.remove(o)
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

// resign ends the lead of the caller, and makes a follower the leader.
func (h *hub) resign() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for o := h.followers.first; o != nil; o = h.followers.first {
		h.followers.remove(o)
		if o.returns() {
			continue // it is about to return
		}
		o.leads = true
		o.wake()
		return
	}
	h.leading = false
	if h.standby {
		h.standby = false
		h.serve <- struct{}{}
	}
}

// owe counts operations that no goroutine waits for.
func (h *hub) owe(n int32) {
	if h.owed.Add(n) <= 0 || n < 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.serving && h.dead == nil:
		h.serving = true
		go h.lead()
	case h.lingers:
		h.lingers = false
		h.serve <- struct{}{}
	}
}

// nothingOwed reports whether the hub's goroutine has nothing to do.
func (h *hub) nothingOwed() bool { return h.owed.Load() <= 0 }

// linger bounds how long the hub's goroutine stays when nothing is owed. Starting another one costs more
// than an operation.
const linger = 100 * time.Millisecond

// lead is the hub's goroutine. It leads when no other goroutine does and something is owed.
func (h *hub) lead() {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	stop := h.nothingOwed
	for {
		h.mu.Lock()
		switch {
		case h.dead != nil:
			h.serving = false
			h.mu.Unlock()
			return
		case h.nothingOwed():
			h.lingers = true
			h.mu.Unlock()
			timer.Reset(linger)
			select {
			case <-h.serve:
				continue
			case <-timer.C:
			}
			h.mu.Lock()
			if h.lingers {
				h.lingers, h.serving = false, false
				h.mu.Unlock()
				return
			}
			h.mu.Unlock()
			<-h.serve // owe was faster
			continue
		case h.leading:
			h.standby = true
			h.mu.Unlock()
			<-h.serve
			continue
		}
		h.leading = true
		h.mu.Unlock()
		h.serverLeads.Store(true)
		err := internals.Lead(h.cq, context.Background(), stop)
		h.serverLeads.Store(false)
		if err != nil {
			h.fail(err)
		}
		h.resign()
	}
}

// fail reports to the queues that no more completions can be received.
func (h *hub) fail(err error) {
	h.mu.Lock()
	h.dead = err
	h.mu.Unlock()
	queues := *h.queues.Load()
	for i := range queues {
		if q := queues[i].Load(); q != nil {
			q.mu.Lock()
			q.lost(err)
			q.mu.Unlock()
		}
	}
}

// failure returns the error of fail, nil if it was not called.
func (h *hub) failure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dead
}

// followerList is a first-in first-out list of operations whose goroutines follow.
type followerList struct{ first, last *op }

func (l *followerList) push(o *op) {
	o.follows, o.before, o.behind = true, l.last, nil
	if l.last == nil {
		l.first = o
	} else {
		l.last.behind = o
	}
	l.last = o
}

func (l *followerList) remove(o *op) {
	if o.before == nil {
		l.first = o.behind
	} else {
		o.before.behind = o.behind
	}
	if o.behind == nil {
		l.last = o.before
	} else {
		o.behind.before = o.before
	}
	o.follows, o.before, o.behind = false, nil, nil
}
