// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"sync/atomic"
	"time"
	"unsafe"

	"purerdma/internal/mmio"
	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/provider/internal/spin"
)

// In the error state the adapter flushes the requests that it has got. It ignores each request whose
// doorbell came after the adapter had stopped the queue pair. The kernel has a command that passes such
// requests to the adapter (REFLUSH), but only for its own queue pairs. liberdma refuses to post in the
// error state. It never completes the requests that were posted before the program read the state.
//
// The provider completes these requests. From the move to the error state on, it keeps new requests from
// the adapter and holds them. When the adapter has completed the last request before these, the provider
// flushes the held requests, in order. If the adapter completes nothing for a while, the provider flushes
// the rest itself.

// flushWait is the time without a completion after which the adapter has nothing more to flush. The
// kernel's driver waits a tenth of a millisecond.
const flushWait = 100 * time.Millisecond

// hold keeps requests that are posted from now on from the adapter. The caller holds q.commands.
func (q *qp) hold() {
	q.sq.lock.Lock()
	q.rq.lock.Lock()
	if !q.sq.held {
		q.sq.held, q.rq.held = true, true
		q.heldSends.Store(q.sq.head)
		q.heldRecvs.Store(q.rq.head)
		q.holding.Store(true)
	}
	q.rq.lock.Unlock()
	q.sq.lock.Unlock()
}

// resume reverses hold. It passes the held requests to the adapter, because the command to move the QP has
// failed. The caller holds q.commands.
func (q *qp) resume() {
	q.release()
	s, r := &q.sq, &q.rq
	s.lock.Lock()
	if s.head != q.heldSends.Load() {
		s.doorbells++
		mmio.Doorbell(s.record, endian.Little64(s.num|uint64(uint16(s.batch.start))), s.bell, &q.rq.unused)
	}
	s.lock.Unlock()
	r.lock.Lock()
	for i := q.heldRecvs.Load(); i != r.head; i++ {
		r.ring(r.num | uint64(uint16(i+1)))
	}
	r.lock.Unlock()
}

// release ends hold. The caller holds q.commands.
func (q *qp) release() {
	q.sq.lock.Lock()
	q.rq.lock.Lock()
	q.sq.held, q.rq.held = false, false
	q.holding.Store(false)
	q.rq.lock.Unlock()
	q.sq.lock.Unlock()
}

// postHeld holds n built requests, which end before block pi, and releases the lock of the send queue.
// err is about the request behind them.
func (q *qp) postHeld(pi, n uint32, err error) (int, error) {
	s := &q.sq
	s.pi, s.batch.head = pi, s.head+n
	if q.sendCQ.overfull() {
		s.discard()
		s.lock.Unlock()
		return 0, provider.ErrFull
	}
	s.batch.start = pi
	spin.StoreRelease(&s.head, s.batch.head)
	s.lock.Unlock()
	q.sendCQ.flushPosted(q)
	return int(n), err
}

// overfull reports whether the provider has added as many completions as the CQ has entries. Then a
// program that posts without polling gets provider.ErrFull.
func (c *cq) overfull() bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	return len(c.added) >= c.entries
}

// flushPosted flushes the held requests of q, if the adapter has completed the ones before them.
func (c *cq) flushPosted(q *qp) {
	c.lock.Lock()
	flushed := c.flushHeld(q)
	c.lock.Unlock()
	if flushed {
		c.notify()
	}
}

// notify wakes the waiters, because the kernel has no event for the provider's completions.
func (c *cq) notify() {
	if c.wake != nil {
		c.wake()
	}
}

// flushHeld adds completions for the held requests of q that complete on this CQ, if the adapter has
// completed the ones before them. It reports whether it has added any. The caller holds the lock.
func (c *cq) flushHeld(q *qp) bool {
	if !q.holding.Load() {
		return false
	}
	before := len(c.added)
	if c == q.sendCQ && int32(q.sq.tail-q.heldSends.Load()) >= 0 {
		c.added = q.flushSends(c.added)
	}
	if c == q.recvCQ && int32(q.rq.tail-q.heldRecvs.Load()) >= 0 {
		c.added = q.flushRecvs(c.added)
	}
	if len(c.added) == before {
		return false
	}
	c.forget() // a poll that starts in a fast loop does not look at c.added
	return true
}

// flushSends completes all outstanding requests. The caller holds the lock of the send CQ.
func (q *qp) flushSends(wcs []provider.WC) []provider.WC {
	s := &q.sq
	head := atomic.LoadUint32(&s.head)
	for n := s.tail; n != head; n++ {
		e := s.entry(s.next)
		wcs = append(wcs, provider.WC{ID: e.id, Status: provider.WCWRFlushErr, QPNum: q.num})
		s.next += e.blocks
	}
	spin.StoreRelease(&s.tail, head)
	return wcs
}

// flushRecvs completes all outstanding receives. The caller holds the lock of the receive CQ.
func (q *qp) flushRecvs(wcs []provider.WC) []provider.WC {
	r := &q.rq
	head := atomic.LoadUint32(&r.head)
	for n := r.tail; n != head; n++ {
		wcs = append(wcs, provider.WC{ID: r.id(n), Status: provider.WCWRFlushErr, Opcode: provider.WCRecv, QPNum: q.num})
	}
	spin.StoreRelease(&r.tail, head)
	return wcs
}

// awaitFlush flushes the requests that the adapter does not flush, when the adapter has completed
// nothing for a while. The caller holds q.commands.
func (q *qp) awaitFlush() {
	q.seen = q.progress()
	if q.timer == nil {
		q.timer = time.AfterFunc(flushWait, q.flushRest)
	} else {
		q.timer.Reset(flushWait)
	}
}

// flushProgress is a state of the flush of a QP.
type flushProgress struct{ sends, recvs, entries uint32 }

// progress returns the state. It changes with each completion of the adapter and with each poll.
func (q *qp) progress() (p flushProgress) {
	q.eachCQ(func(c *cq) {
		c.lock.Lock()
		defer c.lock.Unlock()
		if c == q.sendCQ {
			p.sends = q.sq.tail
		}
		if c == q.recvCQ {
			p.recvs = q.rq.tail
		}
		c.sift(func(e unsafe.Pointer, _ uint32) bool {
			if big32(e, cqeQP) == q.num {
				p.entries++
			}
			return true
		})
	})
	return p
}

// flushRest runs flushWait after the move to the error state, and again as long as the adapter makes
// progress.
func (q *qp) flushRest() {
	q.commands.Lock()
	defer q.commands.Unlock()
	if q.closed.Load() || !q.holding.Load() {
		return
	}
	if p := q.progress(); p != q.seen {
		q.awaitFlush()
		return
	}
	q.eachCQ(func(c *cq) { c.flushAll(q) })
}

// flushAll moves the completions of q that are in the ring to c.added, in order, and adds completions
// for the outstanding requests that have none.
func (c *cq) flushAll(q *qp) {
	c.lock.Lock()
	before := len(c.added)
	c.sift(func(e unsafe.Pointer, head uint32) bool {
		if big32(e, cqeQP) != q.num {
			return true
		}
		var w provider.WC
		if c.decode(e, head, &w) {
			c.added = append(c.added, w)
		}
		return false
	})
	if c == q.sendCQ {
		c.added = q.flushSends(c.added)
	}
	if c == q.recvCQ {
		c.added = q.flushRecvs(c.added)
	}
	c.forget()
	added := len(c.added) > before
	c.lock.Unlock()
	if added {
		c.notify()
	}
}
