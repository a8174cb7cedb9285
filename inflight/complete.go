// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"net"

	"purerdma/verbs"
)

// arrived handles the completion of a posted request. The earlier requests have then completed, unless
// lateReads is set. The caller holds the lock.
func (q *Queue) arrived(seq uint32, wc *verbs.WC) {
	if seq-q.head >= q.tail-q.head || q.at(seq) == nil {
		return // not outstanding
	}
	from := q.head
	if q.lateReads {
		from = seq
	}
	failure := wc.Err()
	if failure != nil && wc.Status != verbs.WCWRFlushErr && q.failure == nil {
		q.failure = failure
	}
	q.recordCompletion(seq, wc)
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
		// requests. No success is assumed there, except for quiet requests.
		if failure != nil && (from == seq || o.signaled || wc.Status == verbs.WCWRFlushErr && !o.isQuiet()) {
			o.err = failure
		}
		q.complete(o)
	}
	q.skipCompleted()
	if q.pending.first != nil {
		q.hub.postLater(q)
	}
}

// complete handles an operation that has its result. It frees the Holder and passes the result on. The
// caller holds the lock.
func (q *Queue) complete(o *op) {
	q.used--
	if !o.marker && o.err != nil {
		q.stats.Failed++
	}
	o.state = opCompleted
	o.freeHold()
	q.grantRoom()
	switch {
	case o.fn != nil && !(o.lazy && o.err == nil):
		if o.unowed {
			q.hub.owe(1) // until the function has returned
		}
		q.hub.callLater(o)
	case o.abandoned:
		if !o.unowed {
			q.hub.owe(-1)
		}
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
	q.failure, q.lostFuncs = nil, nil
	q.record(recReset, 0, 0, 0, true)
	end := q.tail
	if q.posting {
		end -= uint32(len(q.batch)) // postBatch drops the requests that it has posted
	}
	q.drop(end)
	for o := q.pending.pop(); o != nil; o = q.pending.pop() {
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
	if !o.isQuiet() {
		o.err = &verbs.WCError{Status: verbs.WCWRFlushErr, QPNum: q.qp.Num(), ID: o.wr.ID}
	}
	q.complete(o)
}

// isQuiet reports whether the operation was posted, no goroutine waits for it, and the device reports only its failure.
// Most such operations have succeeded long before. So the end of the QP is no failure of them. The caller holds the lock.
func (o *op) isQuiet() bool {
	return o.state == opPosted && o.lazy && o.hold == nil && !o.signaled
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
	q.record(recClose, 0, 0, 0, true)
	for ; q.head != q.tail; q.head++ {
		if o := q.at(q.head); o != nil {
			q.ring[q.head&uint32(len(q.ring)-1)] = nil
			if !o.isQuiet() {
				o.err = net.ErrClosed
			}
			q.complete(o)
		}
	}
	for o := q.pending.pop(); o != nil; o = q.pending.pop() {
		o.err = net.ErrClosed
		q.complete(o)
	}
	for o := q.room.pop(); o != nil; o = q.room.pop() {
		o.err = net.ErrClosed
		o.finish()
	}
	q.mu.Unlock()
	q.hub.queues.remove(q.base)
	q.hub.Finish(false)
}

// grantRoom wakes calls of Start that wait for room, as many as there is room for. The caller holds the
// lock.
func (q *Queue) grantRoom() {
	for q.used < q.depth && q.room.first != nil {
		o := q.room.pop()
		q.used++
		o.finish()
	}
}
