// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"context"
	"fmt"
	"sync"
	"syscall"

	"purerdma/internal/bridge"
	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// Config configures a Queue. The zero Config is the default.
type Config struct {
	// MaxReads bounds the READs and atomics in flight. It is the initiator depth of the connection,
	// which the QP has as its MaxRdAtomic. 0 means that the Queue has no bound. The device then delays
	// the READs beyond its own depth.
	MaxReads int
	// SignalAll makes each request complete with a completion of its own. Otherwise some
	// requests that were posted together complete with a later one.
	SignalAll bool
	// Lost, if not nil, is called at most once, on a goroutine of its own. It reports that operations
	// in flight may not complete before the QP is closed. The reason is that the CQ has lost
	// completions or was closed, or that the doorbell of a post has failed. A reset of the QP removes it, because it
	// drops those operations.
	Lost func(error)
}

// Queue runs operations on the send queue of a QP. Any number of goroutines may use it at a
// time. A full queue makes operations wait. Requests are posted in the order of the calls, with
// one doorbell for all that have gathered.
//
// A reset of the QP drops its requests. Their operations fail with verbs.WCWRFlushErr, and so do
// operations that were not yet posted.
//
// A program may also post to the QP itself, and poll its send CQ. Its request IDs must be below
// 1<<63.
type Queue struct {
	qp    *verbs.QP
	hub   *hub
	base  uint64 // ID of the request with sequence number 0
	depth int
	// lateReads is set if only the completion of a request itself proves that it has completed.
	lateReads bool
	// datagrams is set if the QP takes no WRITE, as which a marker is posted.
	datagrams bool

	mu sync.Mutex // guards the following fields

	// maxReads, signalAll and lostFuncs combine the Config of each call of New. lostFuncs is
	// empty after the functions were called.
	maxReads  int
	signalAll bool
	lostFuncs []func(error)

	free    list[op] // unused operations
	room    list[op] // of Start, waiting until used is below depth
	pending list[op] // not yet posted, in order
	// ring has the posted operations by sequence number, and nil for completed ones. It grows as
	// needed. head is the number of the oldest operation that has not completed, and tail the number
	// of the next one.
	ring       []*op
	head, tail uint32
	// reads counts the READs and atomics in ring.
	reads int
	// used counts the operations in pending and ring.
	used int
	// quiet counts the requests since the last one with SendSignaled.
	quiet int
	// posting is set while a goroutine posts, without the lock.
	posting bool
	// waits is set while the queue is in hub.posts, a list that is linked by nextPost.
	waits    bool
	nextPost *Queue
	// resets counts the resets of the QP.
	resets uint32
	// closed is the error of operations after the QP was closed.
	closed error
	stats  Stats // without Pending
	// failure is the error of the first request that failed other than by a flush.
	failure error
	// recorder has the last requests and completions, for History.
	recorder recorder

	// The goroutine that posts owns the following fields.
	batch       []verbs.SendWR
	batchSG     []verbs.SGE // backs the SGLists of batch
	batchInline []byte      // backs the InlineData of batch
}

// New returns the Queue of a QP. The Queue ends when the QP is closed. There is nothing else to
// close. The send CQ must have a completion channel. Errors are of type *verbs.OpError.
//
// A QP has one Queue, which the first call makes. Further calls return the same Queue and can only
// make its Config stricter. The lowest MaxReads above 0 bounds the READs and atomics of all users,
// SignalAll stays set, and Lost is called in addition to the earlier functions. cm.Conn calls New
// for its QP before its first operation.
func New(qp *verbs.QP, cfg Config) (*Queue, error) {
	q, err := internals.Attach(qp, func() (any, bridge.Watch, error) {
		q, err := create(qp)
		if err != nil {
			return nil, bridge.Watch{}, err
		}
		return q, bridge.Watch{Reset: q.reset, Closed: q.end}, nil
	})
	if err != nil {
		return nil, &verbs.OpError{Op: "make operation queue for", Object: qp.String(), Err: err}
	}
	queue := q.(*Queue)
	queue.configure(cfg)
	return queue, nil
}

func create(qp *verbs.QP) (*Queue, error) {
	cq := qp.SendCQ()
	switch {
	case cq == nil:
		return nil, fmt.Errorf("the QP has no send queue: %w", syscall.EINVAL)
	case cq.Channel() == nil:
		return nil, fmt.Errorf("the send CQ has no completion channel: %w", syscall.EINVAL)
	}
	q := &Queue{qp: qp, ring: make([]*op, 4)}
	// The queue may have more room than was requested, and the CQ less than the queue.
	q.depth = min(qp.Cap().SendWR, cq.Entries())
	q.lateReads = qp.Device().Features().LateReads
	q.datagrams = qp.Type() == verbs.UD || qp.Type() == verbs.RawPacket
	q.signalAll = qp.SignalAll() || q.lateReads || q.datagrams
	q.hub = hubOf(cq)
	if !q.hub.queues.add(q, func(base uint64) { q.base = base }) {
		return nil, errTooMany
	}
	return q, nil
}

// configure adds the Config of a call of New.
func (q *Queue) configure(cfg Config) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if cfg.MaxReads > 0 && (q.maxReads == 0 || cfg.MaxReads < q.maxReads) {
		q.maxReads = cfg.MaxReads
	}
	q.signalAll = q.signalAll || cfg.SignalAll
	if cfg.Lost != nil {
		q.lostFuncs = append(q.lostFuncs, cfg.Lost)
	}
	if err := q.hub.failure(); err != nil { // fail may have come before
		q.lost(err)
	}
}

// Start starts an operation. It waits until there is room for the request in the queue. It returns the
// error of ctx if ctx ends before that, and net.ErrClosed if the QP was closed. In a function of Go or
// Receiver.Handle it does not wait, and returns an error that wraps syscall.EAGAIN. Op.Wait returns all
// other errors.
//
// Start copies wr, so wr and its slices may be reused at once. The ID of wr and its flag SendSignaled are
// ignored. hold may be nil. It is freed when the operation has completed, or when Start fails.
func (q *Queue) Start(ctx context.Context, wr *verbs.SendWR, hold Holder) (Op, error) {
	o, err := q.start(ctx, wr, hold, nil)
	if err != nil {
		if hold != nil {
			hold.Free()
		}
		return Op{}, err
	}
	return Op{o, o.gen.Load()}, nil
}

// Go is like Start, but calls a function with the result instead of returning a token. If Go returns nil,
// fn is called once, by the goroutine that has polled the completion. If Go returns an error, fn is not
// called. fn must not block, and must not call Op.Wait. Start and Go fail there if the queue is full.
func (q *Queue) Go(ctx context.Context, wr *verbs.SendWR, hold Holder, fn func(error)) error {
	_, err := q.start(ctx, wr, hold, fn)
	if err != nil && hold != nil {
		hold.Free()
	}
	return err
}

func (q *Queue) start(ctx context.Context, wr *verbs.SendWR, hold Holder, fn func(error)) (*op, error) {
	cdev.NeedContext(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != nil {
		return nil, q.closed
	}
	o := q.get()
	if q.used < q.depth && q.room.first == nil {
		q.used++
	} else if err := q.waitRoom(ctx, o); err != nil {
		q.release(o)
		return nil, err
	}
	if q.closed != nil { // while it waited
		q.used--
		q.release(o)
		return nil, q.closed
	}
	q.stats.Started++
	q.submit(o, wr, hold, fn)
	return o, nil
}

// waitRoom waits until o is counted in used. The caller holds the lock, which it releases
// during the wait.
func (q *Queue) waitRoom(ctx context.Context, o *op) error {
	if q.hub.inFunction() {
		return errInFunction
	}
	o.state = opWaiting
	q.stats.RoomWaits++
	q.room.push(&o.place)
	q.mu.Unlock()
	err := q.hub.wait(ctx, &o.waiter)
	q.mu.Lock()
	if o.done.Load() {
		o.done.Store(false)
		return o.err
	}
	q.room.remove(&o.place)
	return err
}

// Submit is like Start, but never waits. If the send queue is full, the operation is kept until there
// is room, and Op.Withdraw takes it back. The number of kept operations is not bounded.
func (q *Queue) Submit(wr *verbs.SendWR, hold Holder) (Op, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != nil {
		if hold != nil {
			hold.Free()
		}
		return Op{}, q.closed
	}
	o := q.get()
	q.used++
	q.stats.Started++
	q.submit(o, wr, hold, nil)
	return Op{o, o.gen.Load()}, nil
}

// Post submits a request for which no goroutine waits. It never blocks. If the request fails, failed is
// called with the error, under the rules for the function of Go. hold may be nil. It is freed when the
// request has completed, or when Post fails. If Post returns an error, failed is not called.
//
// Unlike Submit and Detach, Post starts no goroutine that polls for the completion. The next goroutine
// that polls the send CQ takes it, in a wait for another operation or in Poll. While the send queue is
// full, requests wait for completions, so a goroutine polls.
//
// Most requests without hold have no completion unless they fail. They count as pending until a later request
// has completed. The end of the QP is then no failure of theirs.
func (q *Queue) Post(wr *verbs.SendWR, hold Holder, failed func(error)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.enqueue(wr, hold, failed)
	if err == nil {
		q.post()
	}
	return err
}

// Enqueue is like Post, but leaves the request to the next post of the Queue, such as Flush. It is for callers with a
// lock that determines the order of the requests. They call Flush without this lock. So while a goroutine rings a doorbell,
// others add requests, which it then posts with one doorbell.
func (q *Queue) Enqueue(wr *verbs.SendWR, hold Holder, failed func(error)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.enqueue(wr, hold, failed)
}

// Flush posts the requests of Enqueue. If another goroutine posts at the time, Flush returns, and that goroutine posts
// them. It never blocks.
func (q *Queue) Flush() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.post()
}

// enqueue is Enqueue for callers that hold the lock.
func (q *Queue) enqueue(wr *verbs.SendWR, hold Holder, failed func(error)) error {
	if q.closed != nil {
		if hold != nil {
			hold.Free()
		}
		return q.closed
	}
	o := q.get()
	o.abandoned, o.lazy, o.unowed = true, true, q.used < q.depth
	q.used++
	q.stats.Started++
	if !o.unowed {
		q.hub.owe(1)
	}
	o.set(wr, hold, failed)
	q.add(o)
	return nil
}

// Poll takes the available completions from the send CQ and returns. It frees the memory of completed
// operations. It returns the error of a CQ that cannot be polled.
func (q *Queue) Poll() error { return internals.Drain(q.hub.cq) }

// Failure returns the error of the first request that failed other than by a flush, and nil if there is none. It
// wraps a *verbs.WCError. Requests and receives behind that request were flushed because of it. Failure finds only
// completions that were taken (see Poll). A reset of the QP clears it.
func (q *Queue) Failure() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failure
}

// Pending returns the number of operations whose completions have not been taken.
func (q *Queue) Pending() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used
}

// get returns an unused operation. The caller holds the lock.
func (q *Queue) get() *op {
	o := q.free.pop()
	if o == nil {
		return newOp(q)
	}
	o.done.Store(false)
	o.fault.Store(nil)
	return o
}

// submit adds an operation, which is counted in used, and posts pending operations. The caller
// holds the lock.
func (q *Queue) submit(o *op, wr *verbs.SendWR, hold Holder, fn func(error)) {
	o.set(wr, hold, fn)
	if fn != nil {
		q.hub.owe(1)
	}
	q.add(o)
	q.post()
}

// add adds an operation that has its request. The caller holds the lock.
func (q *Queue) add(o *op) {
	o.state = opPending
	q.pending.push(&o.place)
}

// release puts an operation back on the free list. The caller holds the lock.
func (q *Queue) release(o *op) {
	o.gen.Add(1)
	o.state, o.signaled, o.abandoned, o.lazy, o.unowed, o.marker, o.err, o.hold, o.fn = opFree, false, false, false, false, false, nil, nil, nil
	q.free.pushFront(&o.place)
}
