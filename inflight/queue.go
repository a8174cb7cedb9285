// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"context"
	"errors"
	"fmt"
	"net"
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

// maxBatch bounds the requests that are posted at a time. signalPeriod is the distance of the
// requests with a completion among them.
const (
	maxBatch     = 32
	signalPeriod = 4
)

// post posts pending operations as long as there is room. The caller holds the lock, which
// post releases during a post. If another goroutine posts already, it also posts the operations that
// were added.
func (q *Queue) post() {
	if q.posting || q.closed != nil {
		return
	}
	q.posting = true
	for q.gather() > 0 && q.postBatch() {
	}
	q.posting = false
}

// gather moves pending operations to the ring and their requests to the batch. It returns their
// number.
func (q *Queue) gather() int {
	q.batch, q.batchSG, q.batchInline = q.batch[:0], q.batchSG[:0], q.batchInline[:0]
	for len(q.batch) < maxBatch && int(q.tail-q.head) < q.depth {
		o := q.pending.first
		if o == nil || isRead(o.wr.Opcode) && q.config.MaxReads > 0 && q.reads >= q.config.MaxReads {
			break
		}
		q.pending.remove(o)
		if isRead(o.wr.Opcode) {
			q.reads++
		}
		o.state = opPosted
		if int(q.tail-q.head) == len(q.ring) {
			q.growRing()
		}
		q.ring[q.tail&uint32(len(q.ring)-1)] = o
		o.wr.ID = q.base | uint64(q.tail)
		q.tail++
		q.batch = append(q.batch, o.wr)
		q.copySlices(&q.batch[len(q.batch)-1])
	}
	n := len(q.batch)
	for i := range q.batch {
		o := q.at(q.tail - uint32(n-i))
		o.signaled = q.config.SignalAll || i == n-1 || i%signalPeriod == signalPeriod-1
		q.batch[i].Flags &^= verbs.SendSignaled
		if o.signaled {
			q.batch[i].Flags |= verbs.SendSignaled
		}
	}
	return n
}

// growRing doubles the ring, which stays a power of 2.
func (q *Queue) growRing() {
	old := q.ring
	q.ring = make([]*op, 2*len(old))
	for seq := q.head; seq != q.tail; seq++ {
		q.ring[seq&uint32(len(q.ring)-1)] = old[seq&uint32(len(old)-1)]
	}
}

// copySlices makes copies of the slices of a request of the batch. A completion may come before the post
// has returned, and its operation is then used again.
func (q *Queue) copySlices(wr *verbs.SendWR) {
	n := len(q.batchSG)
	q.batchSG = append(q.batchSG, wr.SGList...)
	wr.SGList = q.batchSG[n:]
	if wr.InlineData != nil {
		n = len(q.batchInline)
		q.batchInline = append(q.batchInline, wr.InlineData...)
		wr.InlineData = q.batchInline[n:]
	}
}

// at returns the operation with a sequence number that is in the ring.
func (q *Queue) at(seq uint32) *op { return q.ring[seq&uint32(len(q.ring)-1)] }

// isRead reports whether an operation counts against the depth of READs and atomics.
func isRead(code verbs.SendOpcode) bool {
	switch code {
	case verbs.OpRead, verbs.OpReadInv, verbs.OpCompareSwap, verbs.OpFetchAdd:
		return true
	}
	return false
}

// postBatch posts the batch without the lock. It reports whether to go on.
func (q *Queue) postBatch() bool {
	first, resets := q.tail-uint32(len(q.batch)), q.resets
	q.mu.Unlock()
	n, err := q.qp.PostSend(q.batch)
	clear(q.batch) // they have pointers
	q.mu.Lock()
	if q.closed != nil {
		return false // end has completed all operations
	}
	if q.resets != resets {
		q.drop(first + uint32(n)) // reset has left the batch to this goroutine
	}
	if n == len(q.batch) {
		if err != nil {
			// The requests are queued, but the device was not notified.
			fault := err // allocated only here
			for seq := first; seq != q.tail; seq++ {
				if o := q.at(seq); o != nil {
					o.fault.Store(&fault)
					o.wakeFollower()
				}
			}
			internals.WakeLeader(q.hub.cq)
			q.lost(err)
		}
		return true // further requests have another doorbell
	}
	// Take back the requests that were not posted.
	for q.tail != first+uint32(n) {
		q.tail--
		o := q.at(q.tail)
		if o == nil {
			continue // the device has completed a request that it never got
		}
		q.ring[q.tail&uint32(len(q.ring)-1)] = nil
		if isRead(o.wr.Opcode) {
			q.reads--
		}
		o.state = opPending
		q.pending.pushFront(o)
	}
	full := errors.Is(err, verbs.ErrFull)
	if !full {
		o := q.pending.first
		q.pending.remove(o)
		o.err = err
		q.complete(o)
		internals.WakeLeader(q.hub.cq) // for its own operation, or to call functions
	}
	if n > 0 && !q.datagrams && q.tail != q.head && (!full || q.at(q.tail-1) != nil && !q.at(q.tail-1).signaled) {
		q.pending.pushFront(q.marker())
	}
	if full {
		// Requests that the program has posted itself fill the queue. They may have completed
		// before waits was set, so try once more.
		again := !q.waits
		q.hub.postLater(q)
		return again
	}
	return true
}

// marker returns an operation without data. Its request follows requests after which another one
// was not posted. The refused request might have been the one with the completion, and the doorbell might have
// failed. The caller holds the
// lock.
func (q *Queue) marker() *op {
	o := q.get()
	o.set(&verbs.SendWR{Opcode: verbs.OpWrite}, nil, nil)
	o.state, o.abandoned = opPending, true
	q.used++
	q.hub.owe(1)
	return o
}

// lost reports that operations in flight may never complete. The caller holds the lock.
func (q *Queue) lost(err error) {
	if fn := q.config.Lost; fn != nil {
		q.config.Lost = nil
		go fn(err)
	}
}

// arrived takes a completion of a posted request. The earlier requests have also completed, unless
// the device has late READs. The caller holds the lock.
func (q *Queue) arrived(seq uint32, wc *verbs.WC) {
	if seq-q.head >= q.tail-q.head || q.at(seq) == nil {
		return // not outstanding
	}
	from := q.head
	if q.lateReads {
		from = seq
	}
	for ; from != seq+1; from++ {
		o := q.at(from)
		q.ring[from&uint32(len(q.ring)-1)] = nil
		if o == nil {
			continue
		}
		if isRead(o.wr.Opcode) {
			q.reads--
		}
		// Completions come in order. A request that has none before an error has succeeded.
		// But a driver may lose completions of a QP in the error state, and then flush later
		// requests. No success is assumed there.
		if wc.Status != verbs.WCSuccess && (from == seq || o.signaled || wc.Status == verbs.WCWRFlushErr) {
			o.wc = *wc
		}
		q.complete(o)
	}
	q.skipCompleted()
	if q.pending.first != nil {
		q.hub.postLater(q)
	}
}

// complete ends an operation that has its result. The caller holds the lock.
func (q *Queue) complete(o *op) {
	q.used--
	o.state = opCompleted
	o.freeHold()
	q.grantRoom()
	switch {
	case o.fn != nil:
		q.hub.callLater(o)
	case o.abandoned:
		q.hub.owe(-1)
		q.release(o)
	default:
		o.finish()
	}
}

// reset completes all operations after the QP was reset. Without it, they would succeed with the next
// success of a later request.
func (q *Queue) reset() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.resets++
	end := q.tail
	if q.posting {
		end -= uint32(len(q.batch)) // postBatch drops the requests that it has posted
	}
	q.drop(end)
	for q.pending.first != nil {
		o := q.pending.first
		q.pending.remove(o)
		q.flush(o)
	}
	internals.WakeLeader(q.hub.cq) // for its own operation, or to call functions
}

// drop completes the operations in the ring before a sequence number, whose requests the QP has
// dropped. The caller holds the lock.
func (q *Queue) drop(end uint32) {
	for seq := q.head; int32(end-seq) > 0; seq++ {
		o := q.at(seq)
		if o == nil {
			continue
		}
		q.ring[seq&uint32(len(q.ring)-1)] = nil
		if isRead(o.wr.Opcode) {
			q.reads--
		}
		q.flush(o)
	}
	q.skipCompleted()
}

// flush completes an operation without a completion of the device. The caller holds the lock.
func (q *Queue) flush(o *op) {
	o.wc = verbs.WC{ID: o.wr.ID, Status: verbs.WCWRFlushErr, QPNum: q.qp.Num()}
	q.complete(o)
}

// skipCompleted moves head to the oldest operation that has not completed. The caller holds the
// lock.
func (q *Queue) skipCompleted() {
	for q.head != q.tail && q.at(q.head) == nil {
		q.head++
	}
}

// end completes all operations after the QP was closed, so that the device no longer uses their
// memory.
func (q *Queue) end() {
	q.mu.Lock()
	q.closed = net.ErrClosed
	for ; q.head != q.tail; q.head++ {
		if o := q.at(q.head); o != nil {
			q.ring[q.head&uint32(len(q.ring)-1)] = nil
			o.err = net.ErrClosed
			q.complete(o)
		}
	}
	for q.pending.first != nil {
		o := q.pending.first
		q.pending.remove(o)
		o.err = net.ErrClosed
		q.complete(o)
	}
	for q.room.first != nil {
		o := q.room.first
		q.room.remove(o)
		o.err = net.ErrClosed
		o.finish()
	}
	q.mu.Unlock()
	q.hub.remove(q)
	q.hub.Finish(false)
}

// grantRoom lets operations in that wait for room. The caller holds the lock.
func (q *Queue) grantRoom() {
	for q.used < q.depth && q.room.first != nil {
		o := q.room.first
		q.room.remove(o)
		q.used++
		o.finish()
	}
}
