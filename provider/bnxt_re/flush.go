// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"slices"
	"sync/atomic"

	"purerdma/provider"
	"purerdma/provider/internal/spin"
)

// The adapter completes only the request that has failed. An entry ends a QP that has stopped. The provider completes
// the other requests, and the requests that are posted later. A poll takes the entries of the ring, and then flushes the
// queues that have stopped. The QP of an entry that makes no sense is moved to the error state, and then flushed.
//
// The kernel has no event for these completions. So waiters are woken when a QP stops, and after each later post.

// flushList lists the queues that a CQ flushes.
type flushList struct {
	any   atomic.Bool // there may be one
	lock  spin.Lock   // guards the rest. It is taken after the lock of any CQ
	sends []*qp
	recvs []*qp
}

// add adds the queues of a QP that are not listed yet.
func (l *flushList) add(q *qp, sends, recvs bool) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if sends && !slices.Contains(l.sends, q) {
		l.sends = append(l.sends, q)
	}
	if recvs && !slices.Contains(l.recvs, q) {
		l.recvs = append(l.recvs, q)
	}
	l.any.Store(true)
}

// remove removes the queues of a QP.
func (l *flushList) remove(q *qp) {
	l.lock.Lock()
	defer l.lock.Unlock()
	is := func(other *qp) bool { return other == q }
	l.sends, l.recvs = slices.DeleteFunc(l.sends, is), slices.DeleteFunc(l.recvs, is)
	l.any.Store(len(l.sends)+len(l.recvs) > 0)
}

// flush completes requests of the listed queues, and returns how many of wcs are filled. The caller holds the lock of
// the CQ.
//
//go:noinline
func (c *cq) flush(wcs []provider.WC, n int) int {
	l := &c.flushing
	l.lock.Lock()
	defer l.lock.Unlock()
	before := n
	for _, q := range l.sends {
		s := &q.sq
		for n < len(wcs) && s.tail != atomic.LoadUint32(&s.head) {
			r := s.entry(s.next)
			wcs[n] = provider.WC{ID: r.id, Status: provider.WCWRFlushErr, Opcode: operations[r.op&15].wc, QPNum: q.num}
			n++
			if s.next++; s.next == s.entries {
				s.next = 0
			}
			spin.StoreRelease(&s.tail, s.tail+1)
		}
	}
	for _, q := range l.recvs {
		r := &q.rq
		for n < len(wcs) && r.tail != atomic.LoadUint32(&r.head) {
			wcs[n] = provider.WC{ID: *r.id(r.next), Status: provider.WCWRFlushErr, Opcode: provider.WCRecv, QPNum: q.num}
			n++
			r.free()
		}
	}
	c.counts.Completions[provider.WCWRFlushErr] += uint64(n - before)
	return n
}

// stop flushes queues of a QP that the adapter has stopped, from now on. The caller holds the lock of a CQ, so that the
// wake-up of the waiters is for a goroutine.
func (c *cq) stop(q *qp, sends, recvs bool) {
	q.flushQueues(sends, recvs)
	if q.stopping.CompareAndSwap(false, true) {
		go q.halt()
	}
}

// flushQueues adds queues of the QP to the lists of their CQs. An SRQ has no queue of the QP.
func (q *qp) flushQueues(sends, recvs bool) {
	if sends {
		q.sendCQ.flushing.add(q, true, false)
	}
	if recvs && q.srq == nil {
		q.recvCQ.flushing.add(q, false, true)
	}
}

// halt has posts wake the waiters, unless the QP has been reset.
func (q *qp) halt() {
	q.commands.Lock()
	defer q.commands.Unlock()
	if !q.closed.Load() && q.stopping.Load() {
		q.halted()
	}
}

// halted is halt for the holder of q.commands. The polls of the woken waiters flush a post that came before the locks
// were taken. A later post wakes the waiters itself.
func (q *qp) halted() {
	q.sq.lock.Lock()
	q.rq.lock.Lock()
	q.stopped.Store(true)
	q.rq.lock.Unlock()
	q.sq.lock.Unlock()
	q.eachCQ((*cq).notify)
}

// notify wakes the waiters.
func (c *cq) notify() {
	if c.wake != nil {
		c.wake()
	}
}
