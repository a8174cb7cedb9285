// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"errors"

	"purerdma/verbs"
)

// maxBatch bounds the requests that are posted at a time. Every signalPeriod-th of them and the last one
// have a completion.
const (
	maxBatch     = 32
	signalPeriod = 4
)

// maxQuiet bounds the consecutive requests without a completion that are posted one at a time.
const maxQuiet = 15

// mayBeQuiet reports whether the operation needs no completion. No goroutine waits for it, and it has no memory. A later
// request completes it, and a failure has a completion in any case. So a message costs no completion, and no wake-up of
// a goroutine that waits for the answer. The caller holds the lock.
func (o *op) mayBeQuiet() bool { return o.lazy && o.hold == nil && o.unowed }

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
	idle := q.head == q.tail
	for len(q.batch) < maxBatch && int(q.tail-q.head) < q.depth {
		o := q.pending.front()
		if o == nil {
			break
		}
		if isRead(o.wr.Opcode) && q.maxReads > 0 && q.reads >= q.maxReads {
			q.stats.ReadStalls++
			break
		}
		q.pending.remove(&o.place)
		if isRead(o.wr.Opcode) {
			q.reads++
		}
		o.state = opPosted
		if int(q.tail-q.head) == len(q.ring) {
			q.growRing()
		}
		q.ring[q.tail&uint32(len(q.ring)-1)] = o
		o.wr.ID = q.base | uint64(q.tail)
		q.record(recPost, uint8(o.wr.Opcode), q.tail, requestLen(&o.wr), idle)
		idle = false
		q.tail++
		q.batch = append(q.batch, o.wr)
		q.copySlices(&q.batch[len(q.batch)-1])
	}
	n := len(q.batch)
	needed := false // by one of the requests since the last one with SendSignaled
	for i := range q.batch {
		o := q.at(q.tail - uint32(n-i))
		needed = needed || !o.mayBeQuiet() || q.quiet >= min(maxQuiet, q.depth/4)
		o.signaled = q.signalAll || i == n-1 && needed || i%signalPeriod == signalPeriod-1
		q.batch[i].Flags &^= verbs.SendSignaled
		q.quiet++
		if o.signaled {
			q.batch[i].Flags |= verbs.SendSignaled
			q.quiet, needed = 0, false
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

// copySlices replaces the slices of a request in the batch by copies. The operation may complete before
// PostSend has returned, and is then reused.
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

// postBatch posts the batch without the lock. It reports whether the caller should post more.
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
			q.record(recDoorbell, 0, first, errnoOf(err), true)
			for seq := first; seq != q.tail; seq++ {
				if o := q.at(seq); o != nil {
					o.fault.Store(&fault)
					o.waiter.wakeFollower()
				}
			}
			internals.WakeLeader(q.hub.cq)
			q.lost(err)
		}
		return true // further requests have another doorbell
	}
	// Take back the requests that were not posted.
	full := errors.Is(err, verbs.ErrFull)
	kind := recRefused
	if full {
		kind = recFull
	}
	q.record(kind, 0, first+uint32(n), errnoOf(err), true)
	// The device may have completed requests that it never got, and head is then beyond them.
	for q.tail != first+uint32(n) && q.tail != q.head {
		q.tail--
		o := q.at(q.tail)
		if o == nil {
			continue // completed
		}
		q.ring[q.tail&uint32(len(q.ring)-1)] = nil
		if isRead(o.wr.Opcode) {
			q.reads--
		}
		o.state = opPending
		q.pending.pushFront(&o.place)
	}
	if o := q.pending.front(); !full && o != nil {
		q.pending.remove(&o.place)
		o.err = err
		q.complete(o)
		internals.WakeLeader(q.hub.cq) // for its own operation, or to call functions
	}
	if n > 0 && !q.datagrams && q.tail != q.head && (!full || q.at(q.tail-1) != nil && !q.at(q.tail-1).signaled) {
		q.pending.pushFront(&q.marker().place)
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

// marker returns an operation without data. It is posted after a post that has failed for some of its
// requests. Otherwise the earlier requests might never complete, because the refused request may be the
// one with the completion, or the doorbell may have failed. The caller holds the lock.
func (q *Queue) marker() *op {
	o := q.get()
	o.set(&verbs.SendWR{Opcode: verbs.OpWrite}, nil, nil)
	o.state, o.abandoned, o.marker = opPending, true, true
	q.used++
	q.hub.owe(1)
	return o
}

// lost reports that operations in flight may never complete. The caller holds the lock.
func (q *Queue) lost(err error) {
	for _, fn := range q.lostFuncs {
		go fn(err)
	}
	q.lostFuncs = nil
}
