// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/internal/spin"
)

// A QP fails when a completion that names it is invalid. A request whose completion is lost would
// keep its memory and its waiters forever. The provider then completes all outstanding requests of
// the QP itself, which is in the error state from then on.
//
// Before that the device must stop using the memory that the requests name. In the error state a
// device does so when it writes the flush completion of a request, but those completions are not
// reliable here. So the kernel resets the QP. Afterwards the device neither uses memory for it nor
// completes any request. For the program the QP is in the error state until it resets the QP
// itself.

// Values of QP.failure.
const (
	qpSound   uint32 = iota
	qpFailing        // a goroutine was started that ends the QP
	qpFailed         // the kernel has reset the QP, which takes no requests
)

// fail starts a goroutine that ends the QP, unless there was one since the last reset. The
// caller holds the lock of a CQ, so that the command cannot run here. A DC target has no
// requests of its own.
func (q *QP) fail() {
	if !q.dct && q.failure.CompareAndSwap(qpSound, qpFailing) {
		go q.end()
	}
}

// end moves a failing QP to the error state and completes its outstanding requests.
func (q *QP) end() {
	q.commands.Lock()
	defer q.commands.Unlock()
	if q.closed.Load() || q.failure.Load() != qpFailing {
		return // it was closed or reset first
	}
	if err := q.endLocked(); err != nil {
		q.logNotEnded(err)
		q.failure.Store(qpSound) // the next such completion tries again
	}
}

// logNotEnded logs that the kernel did not end the failing QP. It writes one record of the
// device in lograte.Interval.
func (q *QP) logNotEnded(err error) {
	since, due := q.ctx.notEnded.Add()
	log := q.ctx.log
	if log == nil || !due || q.file.Closed() {
		return
	}
	log.LogAttrs(context.Background(), slog.LevelError, "QP of a completion not understood cannot be ended",
		slog.String("device", q.file.Info().Name), slog.String("qp", fmt.Sprintf("%#x", q.num)),
		slog.String("error", err.Error()), slog.Uint64("failures", since))
}

// endLocked is end for the holder of q.commands.
func (q *QP) endLocked() error {
	was := q.State()
	switch {
	case was == provider.QPReset:
		q.failure.Store(qpSound) // the completion is of a time before
		return nil
	case q.unlocked():
		// One goroutine uses these queues without a lock, and it may be another one. Therefore the
		// device flushes the requests.
		if err := q.modify(&provider.QPAttr{State: provider.QPErr}, provider.QPAttrState); err != nil {
			return err
		}
		q.state.Store(uint32(provider.QPErr))
		return nil
	}
	q.state.Store(uint32(provider.QPErr)) // which refused posts report
	q.admit(false, false)
	if err := q.modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); err != nil {
		q.setState(was)
		return err
	}
	q.failure.Store(qpFailed)
	q.flush()
	return nil
}

// unlocked reports whether the QP, or one of its CQs, may be used by one goroutine only.
func (q *QP) unlocked() bool {
	return q.sq.unlocked || q.sendCQ != nil && q.sendCQ.unlocked || q.recvCQ != nil && q.recvCQ.unlocked
}

// flush completes the outstanding requests. The device does not use them any more, and
// nothing can be posted.
func (q *QP) flush() {
	if q.sendCQ != nil {
		q.sendCQ.flush(q)
	}
	if q.recvCQ != nil && q.recvCQ != q.sendCQ {
		q.recvCQ.flush(q)
	}
}

// flush adds completions for the outstanding requests of q that complete on this CQ, and
// wakes the CQ's waiters.
func (c *CQ) flush(q *QP) {
	c.acquire()
	if c.err == nil {
		c.takeOut(q)
	}
	if c == q.sendCQ {
		c.addFlushed(q, q.sq.flush())
	}
	if c == q.recvCQ {
		c.addFlushed(q, q.rq.flush())
	}
	c.forget() // a poll that starts in a fast loop does not look at c.added
	c.release()
	if c.wake != nil {
		c.wake()
	}
}

// addition is a completion that the provider has added to a CQ.
type addition struct {
	Completion
	ofSRQ bool // it is a receive of the QP's SRQ
}

// takeOut moves the completions of q that are in the ring to c.added, in order.
func (c *CQ) takeOut(q *QP) {
	c.sift(func(i uint32, e unsafe.Pointer) bool {
		if load32(e, cqeUIdx)&0xffffff != q.index {
			return true
		}
		var w Completion
		if c.other(i, e, lastWord(e), &w.WC) == took {
			w.fill(e)
			c.added = append(c.added, addition{w, q.srq != nil && isReceive(e)})
		}
		return false
	})
}

// addFlushed adds completions for requests with these IDs, oldest first. The oldest one has a
// distinct status, so that the cause is not taken for a disconnect. One of the requests has
// completed with an unknown result.
func (c *CQ) addFlushed(q *QP, ids []uint64) {
	st := provider.WCFatalErr
	for _, id := range ids {
		c.added = append(c.added, addition{Completion: Completion{WC: provider.WC{ID: id, Status: st, QPNum: q.num}}})
		st = provider.WCWRFlushErr
	}
}

// catchUp completes the receives before the receive that the entry of a failed receive names. It
// does so only if a single goroutine uses the failing QP c.qp. The device flushes receives in
// order, so it does not use those any more, and their own completions were lost. It reports whether
// there were any.
func (c *CQ) catchUp(counter uint16) bool {
	q, r := c.qp, &c.qp.rq
	if q.failure.Load() != qpFailing || !q.unlocked() {
		return false
	}
	lost := (uint32(counter) - r.tail) & r.mask
	if lost == 0 || lost >= atomic.LoadUint32(&r.head)-r.tail {
		return false
	}
	ids := make([]uint64, lost)
	for i := range ids {
		ids[i] = r.id(r.tail)
		r.free()
	}
	c.addFlushed(q, ids)
	c.fast = fastNone // a poll that starts in a fast loop does not look at c.added
	return true
}

// takeAdded moves completions from c.added to wcs[n] on, and returns how many of wcs are filled.
func (c *CQ) takeAdded(wcs []provider.WC, n int) int {
	for n < len(wcs) && len(c.added) > 0 {
		wcs[n] = c.nextAdded().WC
		n++
	}
	return n
}

// nextAdded removes the oldest completion of c.added, which is not empty.
func (c *CQ) nextAdded() Completion {
	w := c.added[0].Completion
	c.count(&w.WC)
	if c.added = c.added[1:]; len(c.added) == 0 {
		c.added = nil
	}
	return w
}

// flush removes all outstanding requests and returns their IDs, oldest first. The caller holds the
// lock of the CQ, and nothing can be posted.
//
// It goes backward from the newest request, because an unfinished batch may still write the blocks
// behind it, even though it cannot be posted.
func (s *sendQueue) flush() []uint64 {
	head, tail := atomic.LoadUint32(&s.head), s.tail
	ids := make([]uint64, head-tail)
	for block, n := s.batch.start, head-tail; n > 0; {
		block--
		if e := s.entry(block); e.head == tail+n-1 { // not the second block of a request
			n--
			ids[n] = e.id
		}
	}
	spin.StoreRelease(&s.tail, head)
	return ids
}

// flush removes all outstanding receives and returns their IDs, oldest first. The caller holds the
// lock of the CQ, and nothing can be posted.
func (q *recvQueue) flush() []uint64 {
	head := atomic.LoadUint32(&q.head)
	ids := make([]uint64, 0, head-q.tail)
	for i := q.tail; i != head; i++ {
		ids = append(ids, q.id(i))
	}
	spin.StoreRelease(&q.tail, head)
	return ids
}
