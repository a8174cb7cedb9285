// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"sync/atomic"
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/internal/spin"
)

// take fills wcs with completions, and returns their number. The caller holds the lock.
func (c *cq) take(wcs []provider.WC) int {
	n := 0
	if len(c.added) > 0 {
		n = c.takeAdded(wcs)
	}
	n = c.takeRing(wcs, n)
	if n < len(wcs) && c.flushing.any.Load() {
		n = c.flush(wcs, n)
	}
	return n
}

// takeAdded takes completions of the old ring.
func (c *cq) takeAdded(wcs []provider.WC) int {
	n := copy(wcs, c.added)
	if c.added = c.added[n:]; len(c.added) == 0 {
		c.added = nil
	}
	for i := range wcs[:n] {
		c.count(&wcs[i])
	}
	return n
}

// takeRing fills wcs from n on with completions of the ring, and returns how many of wcs are filled. One call skips at
// most as many entries as the ring has.
func (c *cq) takeRing(wcs []provider.WC, n int) int {
	before := c.polled
	for left := c.depth; n < len(wcs) && left > 0; left-- {
		e := c.entry(c.head)
		f := flags(e)
		if f&flagPhase != c.phase {
			break
		}
		if f&flagsUsual == c.phase {
			if got := c.usual(wcs[n:]); got > 0 {
				n += got
				continue
			}
		}
		done := true
		switch f >> flagType & 15 {
		case typeSend:
			n, done = c.requests(e, f, wcs, n)
		case typeRecvRC, typeRecvUD:
			n += c.receive(e, f, &wcs[n])
		case typeEnd:
			c.end(e)
		case typeCutoff:
			if c.resize.region == nil {
				c.fail(e, nil, "end of a ring that is not changed")
				break
			}
			return n // Resize moves to the new ring.
		default:
			c.fail(e, nil, "unknown type")
		}
		if !done {
			break
		}
		c.advance()
	}
	if c.polled != before && !c.deferred {
		c.ringPolled()
	}
	return n
}

// flagsUsual are the phase, the type and the status. Type and status are 0 if requests have succeeded.
const flagsUsual = 0xff<<flagStatus | 15<<flagType | flagPhase

// usual fills wcs with completions of the QP of the last entry, as long as each entry completes one request, and returns
// their number. It only does faster what requests does.
func (c *cq) usual(wcs []provider.WC) int {
	q := c.qp
	if q == nil || c != q.sendCQ {
		return 0
	}
	s := &q.sq
	next, tail, head := s.next, s.tail, atomic.LoadUint32(&s.head)
	n := 0
	for n < len(wcs) && tail != head {
		e := c.entry(c.head)
		after := next + 1
		if after == s.entries {
			after = 0
		}
		r := s.entry(next)
		if flags(e)&flagsUsual != c.phase || load64(e, cqeSendQP) != q.cookie || uint16(load32(e, cqeCons)) != uint16(after) || !r.signaled {
			break
		}
		w := &wcs[n]
		w.ID = r.id
		w.Status = provider.WCSuccess
		w.Opcode = operations[r.op&15].wc
		w.QPNum = q.num
		w.ByteLen = r.length
		w.ImmData = 0
		w.InvalidatedRKey = 0
		w.VendorErr = 0
		w.SrcQP = 0
		w.Flags = 0
		w.SLID = 0
		w.PKeyIndex = 0
		w.SL = 0
		w.DLIDPathBits = 0
		n++
		tail++
		next = after
		c.head++
		c.polled++
		if c.head == c.depth || c.deferred && c.polled >= c.half {
			c.turn()
		}
	}
	s.next = next
	spin.StoreRelease(&s.tail, tail)
	c.counts.Completions[provider.WCSuccess] += uint64(n)
	return n
}

// find returns the QP that an entry names, or nil. A handle of 0 is of a QP that was closed or reset.
func (c *cq) find(e unsafe.Pointer, at uintptr) *qp {
	handle := load64(e, at)
	if q := c.qp; q != nil && q.cookie == handle {
		return q
	}
	if handle == 0 {
		return nil
	}
	q := c.ctx.qps.find(handle)
	if q == nil {
		c.fail(e, nil, "no queue pair has the handle")
		return nil
	}
	c.qp = q
	return q
}

// requests adds the completions of the requests up to the request that an entry names. It returns how many of wcs are
// filled, and whether all of these completions had room. The entry of a request that has failed ends with that request.
func (c *cq) requests(e unsafe.Pointer, f uint32, wcs []provider.WC, n int) (int, bool) {
	q := c.find(e, cqeSendQP)
	if q == nil {
		return n, true
	}
	s := &q.sq
	status := uint8(f >> flagStatus)
	cons := load32(e, cqeCons) & 0xffff
	switch {
	case status != 0 && s.variable:
		cons = s.after(cons)
	case s.entries > 1<<16:
		cons = s.nearest(cons)
	}
	if cons >= s.entries {
		cons %= s.entries
	}
	next, tail := s.next, s.tail
	k := cons - next
	if cons < next {
		k += s.entries
	}
	if k == 0 && status != 0 {
		k = 1 // an adapter that does not name the request means the oldest one
	}
	if c != q.sendCQ || k-1 >= atomic.LoadUint32(&s.head)-tail {
		c.fail(e, q, "completion of a request that was not posted")
		return n, true
	}
	before := n
	done := true
	for ; k > 0; k-- {
		r := s.entry(next)
		if r.signaled || status != 0 && k == 1 {
			if n == len(wcs) {
				done = false
				break
			}
			w := &wcs[n]
			w.ID = r.id
			w.Status = provider.WCSuccess
			w.Opcode = operations[r.op&15].wc
			w.QPNum = q.num
			w.ByteLen = r.length
			w.ImmData = 0
			w.InvalidatedRKey = 0
			w.VendorErr = 0
			w.SrcQP = 0
			w.Flags = 0
			w.SLID = 0
			w.PKeyIndex = 0
			w.SL = 0
			w.DLIDPathBits = 0
			n++
		}
		if next++; next == s.entries {
			next = 0
		}
		tail++
	}
	s.next = next
	spin.StoreRelease(&s.tail, tail)
	c.counts.Completions[provider.WCSuccess] += uint64(n - before)
	if status != 0 && done {
		w := &wcs[n-1]
		w.Status, w.VendorErr, w.ByteLen = sendStatuses[status], uint32(status), 0
		c.counts.Completions[provider.WCSuccess]--
		c.count(w)
		c.stop(q, true, false)
	}
	return n, done
}

// after returns the index of the request behind the request that begins at a slot. Without such a request it returns the
// index of the oldest one. The entry
// of a request of variable size that has failed names the slot. The caller holds the lock of the CQ.
func (s *sendQueue) after(slot uint32) uint32 {
	i := s.next
	for range atomic.LoadUint32(&s.head) - s.tail {
		r := s.entry(i)
		if i++; i == s.entries {
			i = 0
		}
		if r.slot&0xffff == slot {
			return i
		}
	}
	return s.next
}

// nearest returns the first index after the oldest request whose lower 16 bits are given. An entry has only these.
func (s *sendQueue) nearest(low uint32) uint32 {
	best, least := low, s.entries
	for i := low; i < s.entries; i += 1 << 16 {
		if k := (i + s.entries - s.next) % s.entries; k-1 < least {
			best, least = i, k-1
		}
	}
	return best
}

// receive decodes the completion of a receive, and returns the number of completions, 0 or 1.
func (c *cq) receive(e unsafe.Pointer, f uint32, w *provider.WC) int {
	q := c.find(e, cqeRecvQP)
	if q == nil {
		return 0
	}
	status := uint8(f >> flagStatus)
	index := load32(e, cqeIndex)
	var id uint64
	ok := c == q.recvCQ
	switch {
	case !ok:
	case q.srq != nil && status == statusFlushed:
		q.srq.drop(index & indexMask)
		return 0
	case q.srq != nil:
		id, ok = q.srq.complete(index & indexMask)
	case status == statusFlushed:
		return 0
	default:
		id, ok = q.rq.complete(index & indexMask)
	}
	if !ok {
		c.fail(e, q, "completion of a receive that was not posted")
		return 0
	}
	length := load32(e, cqeLength)
	w.ID = id
	w.Status = provider.WCSuccess
	w.Opcode = provider.WCRecv
	w.QPNum = q.num
	w.ByteLen = length
	w.ImmData = 0
	w.InvalidatedRKey = 0
	w.VendorErr = 0
	w.SrcQP = 0
	w.Flags = 0
	w.SLID = 0
	w.PKeyIndex = 0
	w.SL = 0
	w.DLIDPathBits = 0
	if status != 0 {
		w.Status, w.VendorErr, w.ByteLen = recvStatuses[status], uint32(status), 0
		c.count(w)
		if q.srq == nil {
			c.stop(q, false, true)
		}
		return 1
	}
	if f&(flagImm|flagInv) != 0 {
		more(w, e, f)
	}
	if q.datagrams {
		w.ByteLen = length & udLength
		w.Flags |= provider.WCGRH
		// libbnxt_re masks the upper part with a number that is a shift.
		w.SrcQP = index>>sourceHigh<<16 | uint32(*(*uint8)(unsafe.Add(e, cqeSource))) | uint32(*(*uint8)(unsafe.Add(e, cqeSource+1)))<<8
	}
	c.counts.Completions[provider.WCSuccess]++
	c.counts.Received.Add(uint64(w.ByteLen))
	return 1
}

// more fills the fields of a receive that not every message has.
func more(w *provider.WC, e unsafe.Pointer, f uint32) {
	if f&flagImm == 0 {
		w.Flags, w.InvalidatedRKey = provider.WCWithInv, load32(e, cqeImm)
		return
	}
	w.Flags, w.ImmData = provider.WCWithImm, load32(e, cqeImm)
	if f&flagWrite != 0 {
		w.Opcode = provider.WCRecvWriteImm
	}
}

// end handles the entry that ends a QP.
func (c *cq) end(e unsafe.Pointer) {
	if q := c.find(e, cqeSendQP); q != nil && q.State() != provider.QPReset {
		c.stop(q, true, true)
	}
}

// count counts a completion.
func (c *cq) count(w *provider.WC) {
	c.counts.Completions[min(w.Status, provider.WCGeneralErr)]++
	if w.Status == provider.WCSuccess && w.Opcode&provider.WCRecv != 0 {
		c.counts.Received.Add(uint64(w.ByteLen))
	}
}

// countBack undoes count for a completion that was not returned.
func (c *cq) countBack(w *provider.WC) {
	c.counts.Completions[min(w.Status, provider.WCGeneralErr)]--
	if w.Status == provider.WCSuccess && w.Opcode&provider.WCRecv != 0 {
		c.counts.Received.Operations--
		c.counts.Received.Bytes -= uint64(w.ByteLen)
	}
}
