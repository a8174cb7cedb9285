// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"context"
	"sync/atomic"

	"purerdma/internal/cdev"
	"purerdma/internal/mem"
	"purerdma/verbs"
)

// Holder is memory that an operation keeps until the device no longer uses it, such as a
// *pool.Buf.
type Holder interface {
	// Free releases the memory. It is called with locks of the Queue held. It must not block, and
	// must not use the Queue, its CQ or its QP. Free of a *pool.Buf waits for no command of the kernel,
	// even if the pool is closed.
	Free()
}

// Op is a completion token for an operation that was started. Its goroutine calls Wait until the
// operation has completed, or Abandon or Detach. An Op is for one goroutine at a time. The methods of
// the zero Op panic.
type Op struct {
	o   *op
	gen uint32 // of o, which is reused for other operations
}

// PendingError reports that Wait has returned before the operation has completed.
type PendingError struct {
	// Err is the error of the context, of verbs.CQ.Wait, or of a doorbell.
	Err error
}

func (e *PendingError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *PendingError) Unwrap() error { return e.Err }

// op is the state of an operation. It is reused, so that operations allocate nothing.
type op struct {
	q  *Queue
	wr verbs.SendWR // its slices are copies
	in []byte       // backs wr.InlineData

	// hold is freed and fn is called when the operation has completed. Both may be nil.
	hold Holder
	fn   func(error)
	// Guarded by q.mu.
	state     opState
	signaled  bool
	abandoned bool     // no goroutine takes the result
	lazy      bool     // fn is called for failures only, as for Post
	unowed    bool     // not counted in hub.owed
	marker    bool     // of Queue.marker
	place     link[op] // in q.pending, q.room, hub.calls or q.free

	// err is the result, nil for a success. It is written before done is set.
	err  error
	done atomic.Bool
	gen  atomic.Uint32 // counts the uses
	// fault is set if the request is queued, but the device was not notified.
	fault atomic.Pointer[error]

	waiter waiter // the goroutine in Wait or Start
}

// opState is the place of an operation.
type opState uint8

const (
	opFree      opState = iota
	opWaiting           // in Queue.room
	opPending           // in Queue.pending
	opPosted            // in Queue.ring
	opCompleted         // has a result
)

func newOp(q *Queue) *op {
	o := &op{q: q}
	o.place.of = o
	o.waiter.init(o.returns)
	return o
}

// set copies a request into the operation. A literal of the caller stays on its stack.
func (o *op) set(wr *verbs.SendWR, hold Holder, fn func(error)) {
	from, sg := mem.NoEscapeOne(wr), o.wr.SGList[:0]
	o.wr = *from
	o.wr.SGList = append(sg, from.SGList...)
	if from.InlineData != nil {
		o.in = append(o.in[:0], from.InlineData...)
		o.wr.InlineData = o.in
	}
	o.hold, o.fn = hold, fn
}

// finish makes Wait return the result. The caller holds the lock of the queue.
func (o *op) finish() {
	o.done.Store(true)
	o.waiter.wakeFollower()
}

// returns reports whether Wait has a result or a fault to return.
func (o *op) returns() bool { return o.done.Load() || o.fault.Load() != nil }

// Done reports whether the operation has completed, so that the device no longer uses its memory. Done
// does not poll the CQ. A loop that only calls Done may never end.
func (p Op) Done() bool {
	p.o.q.mu.Lock()
	defer p.o.q.mu.Unlock()
	return p.o.gen.Load() != p.gen || p.o.state == opCompleted
}

// Wait waits for the operation and returns its error. The error is a *verbs.WCError if the request was
// posted and failed, the error of verbs.QP.PostSend if it could not be posted, and net.ErrClosed if
// the QP was closed. After Wait has returned the result, the Op must not be used any more.
//
// If Wait cannot wait for the result, the error is a *PendingError. It wraps the error of ctx, of
// verbs.CQ.Wait, or of verbs.QP.PostSend if the request is queued but the device was not notified. The
// operation continues, and the device may use its memory. Call Wait again, or
// Abandon.
func (p Op) Wait(ctx context.Context) error {
	cdev.NeedContext(ctx)
	o := p.o
	if o.gen.Load() != p.gen {
		panic("inflight: Wait after the result of the operation")
	}
	if !o.done.Load() {
		if err := o.q.hub.wait(ctx, &o.waiter); err != nil && !o.done.Load() {
			if ctx.Err() != nil {
				err = cdev.ContextError(ctx)
			}
			return &PendingError{err}
		}
		if fault := o.fault.Swap(nil); fault != nil && !o.done.Load() {
			return &PendingError{*fault}
		}
	}
	q := o.q
	q.mu.Lock()
	err := o.err
	q.release(o)
	q.mu.Unlock()
	return err
}

// Withdraw takes back an operation that was not yet posted. It reports whether it has done so. If it
// has, the request is never posted, the Holder is freed, and p must not be used any more.
func (p Op) Withdraw() bool {
	o := p.o
	q := o.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if o.gen.Load() != p.gen || o.state != opPending {
		return false
	}
	q.pending.remove(&o.place)
	q.used--
	q.grantRoom()
	o.freeHold()
	q.release(o)
	q.post() // the requests behind it
	q.hub.wakeDone()
	return true
}

// Abandon drops the result, and withdraws an operation that was not yet posted: see Withdraw. A posted
// operation continues. Its memory belongs to the device until it has completed, and its Holder is freed
// then. Abandon after the result of Wait has no effect, so it can be deferred.
func (p Op) Abandon() {
	if !p.Withdraw() {
		p.Detach()
	}
}

// Detach drops the result and lets the operation continue, even if it was not yet posted. It is for
// requests for which no goroutine waits, such as an answer to a peer. A request that fails moves the QP to
// the error state, so later operations report it. The Holder is freed when the operation has completed.
// Detach after the result of Wait has no effect.
func (p Op) Detach() {
	o := p.o
	q := o.q
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case o.gen.Load() != p.gen:
	case o.state == opCompleted:
		q.release(o)
	default:
		o.abandoned = true
		q.hub.owe(1)
	}
}

func (o *op) freeHold() {
	if o.hold != nil {
		o.hold.Free()
		o.hold = nil
	}
}
