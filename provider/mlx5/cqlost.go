// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/internal/spin"
)

// An invalid entry may have been the only completion of a signaled request. The next completion of
// the same send queue retires all requests before its own, because unsignaled requests have no
// completions. It would also retire the request whose completion is lost, and its waiters would
// never wake up. So a CQ that has skipped an invalid entry looks for such requests before it decodes
// a completion of a send queue. An invalid entry may name a wrong queue or none, so the CQ does this
// for all its queues until it is closed.

// takePending takes completions from wcs[n] on as CQ.take does, but looks for lost requests, and
// takes the completions that the provider has added first. It returns how many of wcs are filled.
//
//go:noinline
func (c *CQ) takePending(wcs []provider.WC, n int) int {
	c.completeFailed()
	for n < len(wcs) {
		c.fast = fastNone // the fast loops do not look for lost requests
		if len(c.added) > 0 {
			wcs[n] = c.takeAdded()
			n++
			continue
		}
		e := c.entry(c.ci)
		last := lastWord(e)
		if !c.ours(c.ci, last) {
			return n
		}
		if c.addLost(e, last) {
			continue
		}
		out := c.other(c.ci, e, last, &wcs[n])
		if c.recorded != nil {
			c.recorded.completion(c, e, out, &wcs[n])
		}
		switch out {
		case took:
			spin.StoreRelease(&c.ci, c.ci+1)
			c.count(&wcs[n])
			n++
		case skipped:
			c.skipEntry(e)
		case failed:
			return n
		}
	}
	c.fast = fastNone
	return n
}

// addLost adds completions for the lost requests before the request of entry e, frees these requests
// and fails their QP. It reports whether there were any.
//
// If the request of entry e has succeeded, the unsignaled requests before it have also succeeded. If
// it has failed, one of them may have failed first, with the completion that is lost.
//
//go:noinline
func (c *CQ) addLost(e unsafe.Pointer, last uint32) bool {
	op := last >> 4 & 15
	if op != cqeReqErr && (op != cqeReq || compressed(last)) {
		return false
	}
	if index := load32(e, cqeUIdx) & 0xffffff; index != c.index {
		c.find(index)
	}
	q := c.qp
	if q == nil {
		return false
	}
	request := q.sq.outstanding(uint16(last >> 16))
	if request == nil {
		return false
	}
	block := last >> 16
	ids := q.sq.before(request, block, ctrlCQE)
	if op == cqeReqErr && (len(ids) > 0 || q.failure.Load() != qpSound) {
		ids = q.sq.before(request, block, 0)
	}
	if len(ids) == 0 {
		return false
	}
	spin.StoreRelease(&q.sq.tail, request.head)
	c.addFlushed(q, ids, provider.WCFatalErr)
	c.pending.Store(true)
	q.fail("no completion of an earlier request")
	return true
}

// before returns the IDs of the outstanding requests before request e, whose WQE begins at block,
// oldest first. It omits requests whose control segment lacks a bit of flags. The caller holds the
// lock of the CQ. Requests may be posted at the same time.
func (s *sendQueue) before(e *pendingWR, block uint32, flags uint8) []uint64 {
	var ids []uint64
	next := e.head - 1
	for range s.mask {
		if next == s.tail-1 {
			break
		}
		block--
		r := s.entry(block)
		if atomic.LoadUint32(&r.head) != next {
			continue // not the first block of a request, as with sendQueue.outstanding
		}
		next--
		if load8(unsafe.Add(s.buf, uintptr(block&s.mask)*wqebb), ctrlFlagsAt)&flags == flags {
			ids = append(ids, r.id)
		}
	}
	slices.Reverse(ids)
	return ids
}
