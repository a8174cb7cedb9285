// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/internal/bridge"
	"purerdma/verbs"
)

// internals holds the functions that package verbs does not export.
var internals = bridge.Functions.(*bridge.Verbs[*verbs.Host, *verbs.Device, *verbs.QP, *verbs.CQ, *verbs.SRQ, *verbs.WC])

// hub dispatches the completions of one CQ to the operations of its queues.
//
// One of the goroutines that wait for operations polls the CQ for all of them: the leader. The
// others, the followers, sleep until their operation has completed. A leader whose operation has
// completed makes a follower the leader. So a single goroutine polls for itself, without
// another goroutine between the completion and it.
//
// No goroutine waits for operations with a function, and for abandoned ones. A goroutine of the
// hub, the server, leads when there are such operations and no other goroutine does. It ends when
// there have been none for a while.
//
// With HandleCompletions, or a receiver of HandleLazily, the server leads only after no other goroutine has led
// or polled for a while. It stops leading when a goroutine waits or polls, so that this goroutine leads when it
// waits again.
//
// Locks are taken in this order: the CQ's, Queue.mu, hub.mu.
type hub struct {
	cq *verbs.CQ

	queues idTable[Queue]
	// others has the completions of a CQ without queues, nil if HandleCompletions was not called.
	others atomic.Pointer[completions]

	// leader is the leading goroutine, nil if there is none or the server leads, which
	// serverLeads records.
	leader      atomic.Pointer[waiter]
	serverLeads atomic.Bool
	// wanted is set when a goroutine polls or waits while the server leads and should not.
	wanted atomic.Bool
	// polled is set by Signal.Poll and at the end of a wait while the timer runs. takeOver then waits again.
	polled atomic.Bool
	// owed is the number of operations in flight that no goroutine waits for.
	owed atomic.Int32
	// work is set if calls, posts or others may have elements.
	work atomic.Bool
	// functions is the number of goroutines in callFunctions.
	functions atomic.Int32
	// finishing is set while the leader is in Finish. It checks afterwards whether its wait is over.
	finishing atomic.Bool
	// pause is odd if the CQ has been empty since the last currentPause. Each increment to an even number
	// ends a pause.
	pause atomic.Uint32

	mu        sync.Mutex // guards the following fields
	leading   bool       // a goroutine leads, or is about to
	followers list[waiter]
	// serving is set while the server runs. It waits for a token in serve while lingers or
	// standby is set. lingers means that nothing is owed. standby means that another goroutine leads.
	serving bool
	lingers bool
	standby bool
	serve   chan struct{}
	// patience is the time without a leader after which the server leads. takeover then wakes it, at most as
	// much later. It is nil while patience is 0. ticking is set while it runs.
	patience time.Duration
	takeover *time.Timer
	ticking  bool

	// dead is the error after which no more completions can be received.
	dead error
	// receivers lists the receivers of the CQ.
	receivers list[Receiver]
	// calls lists the completed operations whose functions are to be called.
	calls list[op]
	// posts lists the queues that may have pending operations and room.
	posts *Queue
	// deliveries lists the receivers whose functions are to be called.
	deliveries list[Receiver]
	// refills lists the receive queues that need memory.
	refills list[receives]
}

var errTooMany = fmt.Errorf("more than %d queues at a time", indexMask+1)

// hubOf returns the hub of a CQ.
func hubOf(cq *verbs.CQ) *hub {
	return internals.Handle(cq, func() bridge.Handler[*verbs.WC] {
		return &hub{cq: cq, serve: make(chan struct{}, 1)}
	}).(*hub)
}

// Complete implements bridge.Handler.
func (h *hub) Complete(wc *verbs.WC) bool {
	if wc.ID&recvIDs != 0 {
		return h.completeReceive(wc)
	}
	q := h.queues.lookup(wc.ID)
	if q == nil {
		return h.completeOther(wc)
	}
	if wc.ID&^(1<<genShift-1) != q.base || wc.QPNum != q.qp.Num() {
		return wc.ID>>indexShift == q.base>>indexShift && wc.ID>>genShift != q.base>>genShift // late completion of an earlier queue with this index
	}
	q.mu.Lock()
	q.arrived(uint32(wc.ID), wc)
	q.mu.Unlock()
	return true
}

// completeOther is Complete for a CQ without queues.
func (h *hub) completeOther(wc *verbs.WC) bool {
	c := h.others.Load()
	if c == nil {
		return false
	}
	c.take(wc)
	h.work.Store(true)
	return true
}

// Empty implements bridge.Handler.
func (h *hub) Empty() {
	if n := h.pause.Load(); n&1 == 0 {
		h.pause.Store(n + 1) // only Empty makes it odd, one call at a time
	}
}

// currentPause returns a number that changes when the CQ has been empty. Then time may have passed since
// the last record.
func (h *hub) currentPause() uint32 {
	n := h.pause.Load()
	if n&1 != 0 {
		h.pause.CompareAndSwap(n, n+1)
		n++
	}
	return n
}

// Finish implements bridge.Handler. It calls functions and posts pending operations.
func (h *hub) Finish(leader bool) {
	if h.work.Load() {
		h.finishing.Store(leader)
		h.doWork()
		h.finishing.Store(false)
	}
	if !leader {
		h.wakeDone()
	}
}

// wakeDone wakes the leader if its wait is over.
func (h *hub) wakeDone() {
	if w := h.leader.Load(); w != nil && w.returns() || h.serverLeads.Load() && h.serverStops() {
		internals.WakeLeader(h.cq)
	}
}

func (h *hub) doWork() {
	h.mu.Lock()
	calls, posts, deliveries, refills := h.calls, h.posts, h.deliveries, h.refills
	h.calls, h.posts, h.deliveries, h.refills = list[op]{}, nil, list[Receiver]{}, list[receives]{}
	h.work.Store(false)
	h.mu.Unlock()
	for rq := refills.pop(); rq != nil; rq = refills.pop() {
		rq.refilling.Store(false) // its place is free
		rq.refill()
	}
	for q := posts; q != nil; {
		q.mu.Lock()
		next := q.nextPost
		q.nextPost, q.waits = nil, false
		q.post()
		q.mu.Unlock()
		q = next
	}
	if calls.first != nil || deliveries.first != nil {
		h.callFunctions(&calls, &deliveries)
	}
	if others := h.others.Load(); others != nil {
		others.callFunction()
	}
}

// callFunctions calls the functions of completed operations, and of receivers with messages. inFunction looks
// for it among the callers.
func (h *hub) callFunctions(calls *list[op], deliveries *list[Receiver]) {
	h.functions.Add(1)
	defer h.functions.Add(-1)
	for o := calls.pop(); o != nil; o = calls.pop() {
		q := o.q
		o.fn(o.err)
		q.mu.Lock()
		q.release(o)
		q.mu.Unlock()
		h.owe(-1)
	}
	for r := deliveries.pop(); r != nil; r = deliveries.pop() {
		r.callFunction()
	}
}

// callLater makes Finish call the function of an operation.
func (h *hub) callLater(o *op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls.push(&o.place)
	h.work.Store(true)
}

// postLater makes Finish post the pending operations of a queue. The caller holds the lock of
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

// owe adds n to the number of operations that no goroutine waits for. If these are the first ones, it starts or
// wakes the goroutine of the hub.
func (h *hub) owe(n int32) {
	if owed := h.owed.Add(n); n < 0 || owed <= 0 || owed > n {
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

// beLazy makes the server wait until no goroutine has led for a time. The shortest of the times counts.
func (h *hub) beLazy(after time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.takeover == nil {
		h.patience, h.ticking = after, true
		h.takeover = time.AfterFunc(after, h.takeOver)
	}
	h.patience = min(h.patience, after)
}

// awaitTakeOver makes takeOver run when patience has passed without a leader, and at most as much later. It does not
// change a running timer, because it is called for each message, and setting a timer can cost a system call. The
// caller holds the lock.
func (h *hub) awaitTakeOver() {
	h.polled.Store(h.ticking)
	if !h.ticking {
		h.ticking = true
		h.takeover.Reset(h.patience)
	}
}

// takeOver wakes the server if no goroutine leads, and none has led or polled since the timer was set.
func (h *hub) takeOver() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ticking = false
	switch {
	case !h.standby || h.leading: // which sets the timer when it ends
	case h.polled.Load():
		h.awaitTakeOver()
	default:
		h.wakeServer()
	}
}

// wantLead makes the server stop leading if it should not, because the caller polls.
func (h *hub) wantLead() {
	if !h.serverLeads.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.patience > 0 {
		h.wanted.Store(true)
	}
}

// wakeServer ends the standby of the server. The caller holds the lock.
func (h *hub) wakeServer() {
	h.standby = false
	h.serve <- struct{}{}
}

// nothingOwed reports whether the server has nothing to do.
func (h *hub) nothingOwed() bool { return h.owed.Load() <= 0 }

// serverStops reports whether the server has to stop leading.
func (h *hub) serverStops() bool { return h.nothingOwed() || h.wanted.Load() }

// linger bounds how long the server stays when nothing is owed. Starting another one costs more
// than an operation.
const linger = 100 * time.Millisecond

// lead is the server. It leads when no other goroutine does and something is owed.
func (h *hub) lead() {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	stop := h.serverStops
	for {
		h.mu.Lock()
		yields := h.wanted.Swap(false)
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
		case h.leading || yields:
			h.standby = true
			if !h.leading {
				h.awaitTakeOver()
			}
			h.mu.Unlock()
			<-h.serve
			continue
		}
		h.leading = true
		h.serverLeads.Store(true)
		h.mu.Unlock()
		err := internals.Lead(h.cq, context.Background(), stop)
		h.serverLeads.Store(false)
		if err != nil {
			h.fail(err)
		}
		h.resign()
	}
}

// fail reports to the queues and the receivers that no more completions can be received.
func (h *hub) fail(err error) {
	var receivers []*Receiver
	h.mu.Lock()
	h.dead = err
	for n := h.receivers.first; n != nil; n = n.next {
		receivers = append(receivers, n.of)
	}
	h.mu.Unlock()
	for _, r := range receivers {
		r.fail(err)
	}
	if others := h.others.Load(); others != nil {
		others.fail(err)
		others.callFunction()
	}
	queues := h.queues.all()
	for i := range queues {
		if q := queues[i].Load(); q != nil {
			q.mu.Lock()
			q.lost(err)
			q.mu.Unlock()
		}
	}
	h.Finish(false) // calls the functions of the receivers
}

// addReceiver makes fail end a receiver. If fail was called before, it returns the error of fail.
func (h *hub) addReceiver(r *Receiver) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead == nil {
		h.receivers.push(&r.onHub)
	}
	return h.dead
}

// removeReceiver undoes addReceiver.
func (h *hub) removeReceiver(r *Receiver) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.onHub.in {
		h.receivers.remove(&r.onHub)
	}
}

// failure returns the error of fail, nil if it was not called.
func (h *hub) failure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dead
}
