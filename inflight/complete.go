// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"net"

	"purerdma/verbs"
)

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
