// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"purerdma/internal/bridge"
	"purerdma/internal/cdev"
	"purerdma/pool"
	"purerdma/verbs"
)

// Receiver takes the messages of one QP. It keeps receives posted, with buffers of a pool, and posts
// the buffer of a message again when the message is freed. Any number of goroutines may use it at
// a time.
//
// A Receiver ends when its QP is closed or reset, or when a receive fails.
type Receiver struct {
	rq      *receives
	shared  bool // rq also serves other QPs
	qp      *verbs.QP
	hub     *hub
	maxHeld int32
	// held counts the messages that were not freed.
	held  atomic.Int32
	place link[Receiver] // in hub.deliveries
	onHub link[Receiver] // in hub.receivers
	// passed is a place in takenOrder. The QP holds no receive before it. Guarded by receives.mu.
	passed uint64

	mu sync.Mutex // guards the following fields
	// queue has the messages that no Receive has returned. While it is empty, waiting has the waiting
	// calls of Receive.
	queue   list[Message]
	waiting list[receiveCall]
	unused  list[receiveCall]
	// fn takes the messages instead of Receive. calling is set while a goroutine calls it, or is
	// about to.
	fn      func(*Message, error)
	calling bool
	// lazy is set if no goroutine polls for fn.
	lazy bool
	// err is the error of Receive after the last message.
	err error
	// recorder has the last messages, for History.
	recorder recorder
}

// receiveCall is a call of Receive that waits.
type receiveCall struct {
	waiter waiter
	place  link[receiveCall]
	done   atomic.Bool
	// The result, which is written before done is set.
	m   *Message
	err error
}

// NewReceiver makes a Receiver with receives of its own on a QP, which must be in state QPInit or
// later. It takes their memory from a pool of the QP's PD and posts them. The receive CQ must have a
// completion channel. The program may post other receives, and polls their completions
// itself.
func NewReceiver(qp *verbs.QP, p *pool.Pool, cfg ReceiveConfig) (*Receiver, error) {
	depth := cfg.Depth
	if depth == 0 {
		depth = qp.Cap().RecvWR
		if cq := qp.RecvCQ(); cq != nil {
			depth = min(depth, cq.Entries())
		}
	}
	if qp.SRQ() != nil {
		return nil, fmt.Errorf("receives of %v: its receives are of an SRQ: %w", qp, syscall.EINVAL)
	}
	rq, err := newReceives(p, cfg, depth)
	if err != nil {
		return nil, fmt.Errorf("receives of %v: %w", qp, err)
	}
	r, err := newReceiver(qp, rq, false, 0)
	if err != nil {
		rq.release()
		return nil, err
	}
	if err := rq.open(qp); err != nil {
		r.fail(err) // the QP may have some receives
		return nil, fmt.Errorf("receives of %v: %w", qp, err)
	}
	return r, nil
}

func newReceiver(qp *verbs.QP, rq *receives, shared bool, maxHeld int) (*Receiver, error) {
	cq := qp.RecvCQ()
	var why string
	switch {
	case cq == nil:
		why = "it has no receive queue"
	case cq.Channel() == nil:
		why = "its receive CQ has no completion channel"
	case qp.Type() != verbs.RC && qp.Type() != verbs.UC:
		why = "its type is " + qp.Type().String()
	case qp.PD() != rq.pool.PD():
		why = "the pool is of another protection domain"
	}
	if why != "" {
		return nil, fmt.Errorf("receives of %v: %s: %w", qp, why, syscall.EINVAL)
	}
	r := &Receiver{rq: rq, shared: shared, maxHeld: int32(maxHeld), qp: qp, hub: hubOf(cq)}
	r.place.of, r.onHub.of = r, r
	if err := r.hub.addReceiver(r); err != nil {
		return nil, fmt.Errorf("receives of %v: %w", qp, err)
	}
	internals.Watch(qp, bridge.Watch{Reset: r.reset, Closed: r.end})
	r.register()
	return r, nil
}

// register lets the receives find the Receiver, unless it has ended. Another QP may have the number of a
// closed one.
func (r *Receiver) register() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return
	}
	rq := r.rq
	rq.mu.Lock()
	defer rq.mu.Unlock()
	if rq.order != nil {
		r.passed = rq.order.taken() // by other QPs
	}
	rq.receivers[r.qp.Num()] = r
}

// flushedWC returns the completion of a request that a QP has dropped.
func flushedWC(qp *verbs.QP) *verbs.WC {
	return &verbs.WC{Status: verbs.WCWRFlushErr, QPNum: qp.Num()}
}

// Receive waits for a message. The messages come in the order in which the peer sent them. It returns
// the error of ctx if that ends first (os.ErrDeadlineExceeded if its deadline passed). After the last
// message of a QP that has failed it returns a *verbs.WCError. After the QP was closed it returns
// net.ErrClosed. The caller frees the message.
func (r *Receiver) Receive(ctx context.Context) (*Message, error) {
	cdev.NeedContext(ctx)
	r.mu.Lock()
	if m := r.queue.pop(); m != nil {
		r.mu.Unlock()
		return m, nil
	}
	if err := r.err; err != nil {
		r.mu.Unlock()
		return nil, err
	}
	if r.fn != nil {
		r.mu.Unlock()
		return nil, errHandled
	}
	c := r.unused.pop()
	if c == nil {
		c = &receiveCall{}
		c.place.of = c
		c.waiter.init(c.done.Load)
	}
	r.waiting.push(&c.place)
	r.mu.Unlock()

	err := r.hub.wait(ctx, &c.waiter)
	r.mu.Lock()
	if c.done.Load() {
		err = c.err
	} else {
		r.waiting.remove(&c.place)
	}
	m := c.m
	c.m, c.err = nil, nil
	c.done.Store(false)
	r.unused.push(&c.place)
	r.mu.Unlock()
	return m, err
}

var errHandled = errors.New("a function takes the messages: see Receiver.Handle")

// Handle makes fn take the messages instead of Receive. fn is called with one message at a time, in their
// order, and must free it. At the end fn is called once with the error that Receive would return, and no
// message. A goroutine that polls the CQ calls fn, and other messages and operations of that CQ wait for
// it. So fn must not block, and must not call Op.Wait. fn may call Start of a Queue, which fails if the
// queue is full. Handle is called once, while no goroutine calls Receive.
func (r *Receiver) Handle(fn func(m *Message, err error)) { r.handle(fn, false) }

// HandleLazily is like Handle for protocols in which few messages are needed before a goroutine waits
// for another completion of the CQ, or for a [Signal]. Such a goroutine polls the CQ itself. This saves
// the switch between two goroutines for each message. If no goroutine has waited or called [Signal.Poll] for
// the time after, a goroutine of the library polls, at most as much later. The functions of a Queue on this
// CQ may be called as late. With 0 it never polls for fn. The end of a connection is an exception, because
// Stop and the Close of a QP poll.
func (r *Receiver) HandleLazily(fn func(m *Message, err error), after time.Duration) {
	if after > 0 {
		r.hub.beLazy(after)
	}
	r.handle(fn, after <= 0)
}

func (r *Receiver) handle(fn func(m *Message, err error), lazy bool) {
	r.mu.Lock()
	if r.fn != nil || r.waiting.first != nil {
		r.mu.Unlock()
		panic("inflight: Handle of a Receiver in use")
	}
	r.fn, r.lazy = fn, lazy
	if !lazy {
		r.hub.owe(1)
	}
	more := r.callLater()
	r.mu.Unlock()
	if more {
		r.hub.Finish(false)
	}
}

// callLater makes Finish call the function if there are messages or the end. The caller holds the lock.
func (r *Receiver) callLater() bool {
	if r.fn == nil || r.calling || r.queue.first == nil && r.err == nil {
		return false
	}
	r.calling = true
	h := r.hub
	h.mu.Lock()
	h.deliveries.push(&r.place)
	h.work.Store(true)
	h.mu.Unlock()
	return true
}

// callFunction calls the function for the messages that have come, and for the end.
func (r *Receiver) callFunction() {
	for {
		r.mu.Lock()
		m, err := r.queue.pop(), r.err
		r.calling = m != nil || err != nil // for ever after the end
		r.mu.Unlock()
		switch {
		case m != nil:
			r.fn(m, nil)
		case err != nil:
			r.fn(nil, err)
			if !r.lazy {
				r.hub.owe(-1)
			}
			return
		default:
			return
		}
	}
}

// deliver passes an arrived message to Receive or to the function. It returns false if the Receiver has
// ended.
func (r *Receiver) deliver(m *Message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return false
	}
	if r.maxHeld > 0 && r.held.Load() >= r.maxHeld {
		r.failLocked(errTooManyHeld)
		go breakQP(r.qp)
		return false
	}
	r.record(m)
	m.to = r
	m.refs.Store(1)
	r.held.Add(1)
	if c := r.waiting.pop(); c != nil {
		c.m = m
		c.finish()
		return true
	}
	r.queue.push(&m.place)
	r.callLater()
	return true
}

func (c *receiveCall) finish() {
	c.done.Store(true)
	c.waiter.wakeFollower()
}

// breakQP moves a QP to the error state. If that fails, the QP was closed, or takes no messages
// soon, because its receives are not posted again.
func breakQP(qp *verbs.QP) { _ = qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState) }

// failed records the failure of a receive, and ends the Receiver.
func (r *Receiver) failed(wc *verbs.WC) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recordFailure(wc)
	r.failLocked(wc.Err())
}

// fail ends the Receiver. Messages that have arrived can still be taken.
func (r *Receiver) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failLocked(err)
}

func (r *Receiver) failLocked(err error) {
	if r.err != nil {
		return
	}
	r.err = err
	if !r.shared {
		r.rq.stop()
	}
	for c := r.waiting.pop(); c != nil; c = r.waiting.pop() {
		c.err = err
		c.finish()
	}
	r.callLater()
}

// Stop ends the Receiver when the connection has ended for a reason that the QP does not report. Receive
// returns the arrived messages first, and then a *verbs.WCError with the status [verbs.WCWRFlushErr]. It is for
// connections whose end flushes no receive, such as those with an SRQ.
func (r *Receiver) Stop() {
	_ = internals.Drain(r.hub.cq) // a CQ that cannot be polled has no more messages
	r.fail(flushedWC(r.qp).Err())
	r.hub.Finish(false)
}

// reset ends the Receiver after the QP was reset, which drops its receives.
func (r *Receiver) reset() {
	r.fail(flushedWC(r.qp).Err())
	internals.WakeLeader(r.hub.cq) // for its own call, or to call the function
}

// end frees everything after the QP was closed.
func (r *Receiver) end() {
	r.mu.Lock()
	r.failLocked(net.ErrClosed)
	r.err = net.ErrClosed
	var left list[Message]
	if r.fn == nil {
		left, r.queue = r.queue, list[Message]{}
	}
	r.mu.Unlock()
	for m := left.pop(); m != nil; m = left.pop() {
		m.Free()
	}
	r.hub.removeReceiver(r)
	rq := r.rq
	rq.mu.Lock()
	if rq.receivers[r.qp.Num()] == r { // another QP may have the number
		delete(rq.receivers, r.qp.Num())
	}
	rq.mu.Unlock()
	if r.shared {
		rq.refill() // receives that the QP had taken
	} else {
		rq.release()
	}
	r.hub.Finish(false)
}
