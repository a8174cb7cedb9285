// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"context"
	"fmt"
	"sync"
	"syscall"

	"purerdma/internal/cdev"
	"purerdma/verbs"
)

// Config configures a Queue. The zero Config is the default.
type Config struct {
	// MaxReads bounds the READs and atomics that the device executes at a time. It is the
	// initiator depth of the connection, which the QP has as its MaxRdAtomic. With 0
	// the Queue has no bound, and the device delays the others.
	MaxReads int
	// SignalAll makes each request complete with a completion of its own. Otherwise some
	// requests that were posted together complete with a later one.
	SignalAll bool
	// Lost, if not nil, is called once if no more completions can be received, because the CQ
	// has lost some or was closed. It is also called if the device was not notified of requests. It runs on a goroutine of its own. Operations in flight
	// complete when the QP is closed.
	Lost func(error)
}

// Queue runs operations on the send queue of a QP. Any number of goroutines may use it at a
// time. A full queue makes operations wait. Requests are posted in the order of the calls, with
// one doorbell for all that have gathered.
//
// A reset of the QP drops its requests. Their operations fail as flushed, and so do operations that
// were not yet posted.
//
// A program may also post to the QP itself, and poll its send CQ. Its request IDs must be below
// 1<<63.
type Queue struct {
	qp     *verbs.QP
	hub    *hub
	base   uint64 // ID of the request with sequence number 0
	config Config
	depth  int
	// lateReads is set if only the completion of a request itself proves that it has completed.
	lateReads bool
	// datagrams is set if the QP takes no WRITE, as which a marker is posted.
	datagrams bool

	mu sync.Mutex // guards the following fields

	free    *op    // list of unused operations
	room    opList // of Start, waiting until used is below depth
	pending opList // not yet posted, in order
	// ring has the posted operations by sequence number, and nil for completed ones. It grows as
	// needed. head is the number of the oldest operation that has not completed, and tail the number
	// of the next one.
	ring       []*op
	head, tail uint32
	// reads counts the READs and atomics in ring.
	reads int
	// used counts the operations in pending and ring.
	used int
	// posting is set while a goroutine posts, without the lock.
	posting bool
	// waits is set while the queue is in hub.posts, with the next one in nextPost.
	waits    bool
	nextPost *Queue
	// resets counts the resets of the QP.
	resets uint32
	// closed is the error of operations after the QP was closed.
	closed error

	// The goroutine that posts owns the following fields.
	batch       []verbs.SendWR
	batchSG     []verbs.SGE // backs the SGLists of batch
	batchInline []byte      // backs the InlineData of batch
}

// New makes a Queue for a QP. The Queue ends when the QP is closed. There is nothing else to
// close. The send CQ must have a completion channel.
func New(qp *verbs.QP, cfg Config) (*Queue, error) {
	cq := qp.SendCQ()
	switch {
	case cq == nil:
		return nil, fmt.Errorf("operations on %v: it has no send queue: %w", qp, syscall.EINVAL)
	case cq.Channel() == nil:
		return nil, fmt.Errorf("operations on %v: its send CQ has no completion channel: %w", qp, syscall.EINVAL)
	}
	q := &Queue{qp: qp, config: cfg, ring: make([]*op, 4)}
	// The queue may have more room than was requested, and the CQ less than the queue.
	q.depth = min(qp.Cap().SendWR, cq.Entries())
	q.lateReads = qp.Device().Features().LateReads
	q.datagrams = qp.Type() == verbs.UD || qp.Type() == verbs.RawPacket
	q.config.SignalAll = cfg.SignalAll || qp.SignalAll() || q.lateReads || q.datagrams
	q.hub = hubOf(cq)
	if err := q.hub.add(q); err != nil {
		return nil, err
	}
	if err := q.hub.failure(); err != nil { // fail may not have found q
		q.mu.Lock()
		q.lost(err)
		q.mu.Unlock()
	}
	internals.OnReset(qp, q.reset)
	context.AfterFunc(internals.Closed(qp), q.end)
	return q, nil
}

// Start starts an operation. It waits until there is room for the request in the queue. It returns
// the error of ctx if ctx ends before that, and net.ErrClosed if the QP was closed. Op.Wait returns all
// other errors.
//
// Start copies wr, so wr and its slices may be reused at once. The ID of wr and its flag
// SendSignaled are ignored. hold may be nil. It is freed when the operation has completed, or when
// Start fails.
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

// Go is like Start, but calls a function with the result instead of returning a token. If Go returns
// nil, fn is called once, by the goroutine that has polled the completion. If Go returns an error, fn
// is not called. fn must not block. So it may call Start and Go only if the queue has room, because
// they wait otherwise.
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
	q.submit(o, wr, hold, fn)
	return o, nil
}

// waitRoom waits until o is counted in used. The caller holds the lock, which it releases
// during the wait.
func (q *Queue) waitRoom(ctx context.Context, o *op) error {
	o.state = opWaiting
	q.room.push(o)
	q.mu.Unlock()
	err := q.hub.wait(ctx, o)
	q.mu.Lock()
	if o.done.Load() {
		o.done.Store(false)
		return o.err
	}
	q.room.remove(o)
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
	q.submit(o, wr, hold, nil)
	return Op{o, o.gen.Load()}, nil
}

// get returns an unused operation. The caller holds the lock.
func (q *Queue) get() *op {
	o := q.free
	if o == nil {
		return newOp(q)
	}
	q.free, o.next = o.next, nil
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
	o.state = opPending
	q.pending.push(o)
	q.post()
}

// release puts an operation back on the free list. The caller holds the lock.
func (q *Queue) release(o *op) {
	o.gen.Add(1)
	o.state, o.signaled, o.abandoned, o.err, o.hold, o.fn = opFree, false, false, nil, nil, nil
	o.wc.Status = verbs.WCSuccess
	o.next, q.free = q.free, o
}
