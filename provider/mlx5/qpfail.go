// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
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
//
// The command runs in a goroutine of its own. The next poll of each CQ then completes the requests,
// because one goroutine may be the only user of a CQ. The goroutine first reports the failure
// (provider.QPConfig.Failed), without locks, so that the cause is known before the completions.

// Values of QP.failure.
const (
	qpSound   uint32 = iota
	qpFailing        // a goroutine was started that ends the QP
	qpFailed         // the kernel has reset the QP
)

// fail starts a goroutine that ends the QP, unless there was one since the last reset. The
// caller holds the lock of a CQ, so that the command cannot run here. A DC target has no
// requests of its own.
func (q *QP) fail(reason string) {
	if !q.dct && q.failure.CompareAndSwap(qpSound, qpFailing) {
		go q.end(reason)
	}
}

// end reports the failure of a failing QP, moves the QP to the error state and has polls complete its
// outstanding requests.
func (q *QP) end(reason string) {
	q.commands.Lock()
	defer q.commands.Unlock()
	if !q.failing() {
		return
	}
	if q.failed != nil {
		resets := q.resets
		fails := func() bool { // after a reset, a new failure has a goroutine of its own
			return q.resets == resets && q.failing()
		}
		q.commands.Unlock() // Failed may run commands of the QP
		q.failed(&provider.InvalidCompletionError{QPNum: q.num, Reason: reason}, func() bool {
			q.commands.Lock()
			defer q.commands.Unlock()
			return fails()
		})
		q.commands.Lock()
		if !fails() {
			return
		}
	}
	if err := q.endLocked(); err != nil {
		q.logNotEnded(err)
		q.failure.Store(qpSound) // the next such completion tries again
	}
}

// failing reports whether a goroutine must end the QP, which was neither closed nor reset since fail. The
// caller holds q.commands.
func (q *QP) failing() bool {
	if q.closed.Load() || q.failure.Load() != qpFailing {
		return false
	}
	if q.State() == provider.QPReset {
		q.failure.Store(qpSound) // the completion is of a time before
		return false
	}
	return true
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
	q.state.Store(uint32(provider.QPErr)) // which refused posts report
	send, recv := q.sq.ready.Load(), q.recvReady.Load()
	admit := q.admit
	if q.sq.unlocked {
		admit = q.allow // another goroutine may be posting
	}
	admit(false, false)
	if err := q.modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); err != nil {
		q.state.Store(uint32(was))
		admit(send, recv)
		return err
	}
	q.failure.Store(qpFailed)
	if q.sendCQ != nil {
		q.sendCQ.end(q)
	}
	if q.recvCQ != nil && q.recvCQ != q.sendCQ {
		q.recvCQ.end(q)
	}
	return nil
}

// failedQP is a QP that the kernel has reset, and whose outstanding requests polls complete.
type failedQP struct {
	q     *QP
	swept bool // its completions were taken out of the ring
}

// end makes the next poll complete the outstanding requests of q that complete on this CQ, and wakes
// the CQ's waiters.
func (c *CQ) end(q *QP) {
	c.failedMu.Lock()
	c.failed = append(c.failed, failedQP{q: q})
	c.pending.Store(true)
	c.failedMu.Unlock()
	if !c.unlocked {
		c.acquire()
		c.forget() // a poll that starts in a fast loop may not look at c.failed
		c.release()
	}
	if c.wake != nil {
		c.wake()
	}
}

// completeFailed adds completions for the outstanding requests of failed QPs. A post to a QP with
// Unlocked takes no lock, so a post that runs while the QP fails may still add requests. The device
// ignores these requests, and the next poll completes them.
func (c *CQ) completeFailed() {
	c.failedMu.Lock()
	defer c.failedMu.Unlock()
	for i := range c.failed {
		q, st := c.failed[i].q, provider.WCWRFlushErr
		if !c.failed[i].swept {
			c.failed[i].swept = true
			if c.err == nil {
				c.takeOut(q)
			}
			c.forget() // takeOut has changed the queue of the last completion
			st = provider.WCFatalErr
		}
		if c == q.sendCQ {
			c.addFlushed(q, q.sq.flush(), st)
		}
		if c == q.recvCQ {
			c.addFlushed(q, q.rq.flush(), st)
		}
	}
	c.failed = slices.DeleteFunc(c.failed, func(f failedQP) bool { return !f.q.sq.unlocked })
	c.pending.Store(len(c.failed) > 0 || len(c.added) > 0 || c.skipped.Load() > 0)
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
		c.addLost(e, lastWord(e))
		if c.other(i, e, lastWord(e), &w.WC) == took {
			w.fill(e)
			c.added = append(c.added, addition{w, q.srq != nil && isReceive(e)})
		}
		return false
	})
}

// addFlushed adds completions for requests with these IDs, oldest first. The oldest one has the
// status st, and WCFatalErr is distinct, so that the cause is not taken for a disconnect. One of the
// requests has completed with an unknown result.
func (c *CQ) addFlushed(q *QP, ids []uint64, st provider.WCStatus) {
	for _, id := range ids {
		c.added = append(c.added, addition{Completion: Completion{WC: provider.WC{ID: id, Status: st, QPNum: q.num}}})
		st = provider.WCWRFlushErr
	}
}

// takeAdded returns the oldest completion of c.added, which is not empty.
func (c *CQ) takeAdded() provider.WC {
	c.given = &c.added[0]
	c.count(&c.given.WC)
	if c.added = c.added[1:]; len(c.added) == 0 {
		c.added = nil
	}
	return c.given.WC
}

// flush removes all outstanding requests and returns their IDs, oldest first. The caller holds the
// lock of the CQ. Requests may be posted at the same time.
//
// Records of other blocks have numbers outside of the range, as with sendQueue.outstanding.
func (s *sendQueue) flush() []uint64 {
	head, tail := atomic.LoadUint32(&s.head), s.tail
	if head == tail {
		return nil // also if there is no queue
	}
	ids := make([]uint64, head-tail)
	for block := range s.mask + 1 {
		e := s.entry(block)
		if n := atomic.LoadUint32(&e.head) - tail; n < head-tail {
			ids[n] = e.id
		}
	}
	spin.StoreRelease(&s.tail, head)
	return ids
}

// flush removes all outstanding receives and returns their IDs, oldest first. The caller holds the
// lock of the CQ. Receives may be posted at the same time.
func (q *recvQueue) flush() []uint64 {
	head := atomic.LoadUint32(&q.head)
	ids := make([]uint64, 0, head-q.tail)
	for i := q.tail; i != head; i++ {
		ids = append(ids, q.id(i))
	}
	spin.StoreRelease(&q.tail, head)
	return ids
}
