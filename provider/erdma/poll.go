// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"sync/atomic"
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/provider/internal/spin"
)

// Most completions resemble the previous one. They are successful and of a request or a receive of
// the previous QP. Loops of their own handle these. They keep their data in registers and fill a WC
// field by field. The loops end at the first other completion.

// Kinds of the last completion (cq.fast). The CQ has a QP unless it is fastNone.
const (
	fastNone uint8 = iota
	fastSend
	fastRecv
)

// usual are the bits of the first word of an entry that have known values in these loops: the owner,
// the queue and the status.
const usual = 1<<cqeOwner | 0xff<<cqeQueue | 0xff<<cqeStatus

// requests takes completions of requests that succeeded, of the QP whose completion was the last.
func (c *cq) requests(wcs []provider.WC) int {
	q := c.qp
	s := &q.sq
	ci, log, mask, ring, num := c.ci, c.log&31, c.mask, c.ring, endian.Big32(q.num)
	tail, next := s.tail, s.next
	n := 0
	for n < len(wcs) {
		e := unsafe.Add(ring, uintptr(ci&mask)<<blockShift)
		head := header(e)
		// The owner bit is the inverse of the bit of ci.
		if (head^^(ci>>log)<<cqeOwner)&usual != queueSend<<cqeQueue || *(*uint32)(unsafe.Add(e, cqeQP)) != num {
			break
		}
		op := sendOpcodes[uint8(head>>cqeOp)]
		index := big32(e, cqeIndex)
		// Loaded anew each time, because it acquires the stores of the request's post.
		posted := atomic.LoadUint32(&s.head)
		to := s.entry(index)
		if op == 0 || atomic.LoadUint32(&to.head)-tail >= posted-tail {
			break
		}
		tail, next = to.head+1, index+to.blocks
		w := &wcs[n]
		w.ID = to.id
		w.Status = provider.WCSuccess
		w.Opcode = provider.WCOpcode(op &^ known)
		w.QPNum = q.num
		w.ByteLen = big32(e, cqeSize)
		w.ImmData = 0
		w.InvalidatedRKey = 0
		w.VendorErr = 0
		w.SrcQP = 0
		w.Flags = 0
		w.SLID = 0
		w.PKeyIndex = 0
		w.SL = 0
		w.DLIDPathBits = 0
		ci++
		n++
	}
	if n > 0 {
		c.counts.Completions[provider.WCSuccess] += uint64(n)
		s.next = next
		spin.StoreRelease(&s.tail, tail)
		spin.StoreRelease(&c.ci, ci)
	}
	return n
}

// receives takes completions of receives that succeeded, of the QP whose completion was the last.
func (c *cq) receives(wcs []provider.WC) int {
	q := c.qp
	r := &q.rq
	ci, log, mask, ring, num := c.ci, c.log&31, c.mask, c.ring, endian.Big32(q.num)
	tail := r.tail
	n, bytes := 0, uint64(0)
	for n < len(wcs) {
		e := unsafe.Add(ring, uintptr(ci&mask)<<blockShift)
		head := header(e)
		if (head^^(ci>>log)<<cqeOwner)&usual != queueRecv<<cqeQueue || *(*uint32)(unsafe.Add(e, cqeQP)) != num {
			break
		}
		code := uint8(head >> cqeOp)
		op := recvOpcodes[code]
		if op == 0 || (big32(e, cqeIndex)-tail)&r.mask != 0 || atomic.LoadUint32(&r.head) == tail {
			break
		}
		w := &wcs[n]
		w.ID = r.id(tail)
		w.Status = provider.WCSuccess
		w.Opcode = provider.WCOpcode(op &^ known)
		w.QPNum = q.num
		size := big32(e, cqeSize)
		w.ByteLen = size
		w.ImmData = 0
		w.InvalidatedRKey = 0
		w.VendorErr = 0
		w.SrcQP = 0
		w.Flags = 0
		w.SLID = 0
		w.PKeyIndex = 0
		w.SL = 0
		w.DLIDPathBits = 0
		if code != opReceive {
			more(w, e, code)
		}
		tail++
		bytes += uint64(size)
		ci++
		n++
	}
	if n > 0 {
		c.counts.Completions[provider.WCSuccess] += uint64(n)
		c.counts.Received.Operations += uint64(n)
		c.counts.Received.Bytes += bytes
		spin.StoreRelease(&r.tail, tail)
		spin.StoreRelease(&c.ci, ci)
	}
	return n
}

// more fills the fields of a receive that not every operation has. Only the kernel's driver reads the
// invalidated key.
func more(w *provider.WC, e unsafe.Pointer, code uint8) {
	switch code {
	case opRecvImm, opRecvSendImm:
		w.Flags, w.ImmData = provider.WCWithImm, little32(e, cqeImm)
	case opRecvInv:
		w.Flags, w.InvalidatedRKey = provider.WCWithInv, big32(e, cqeImm)
	}
}

// take decodes completions from wcs[n] on, and returns how many of wcs are filled. One call skips at
// most as many entries as the ring has.
func (c *cq) take(wcs []provider.WC, n int) int {
	n = c.takeAdded(wcs, n)
	for skips := uint32(0); n < len(wcs) && skips <= c.mask; {
		e := c.entry(c.ci)
		head := header(e)
		if !c.written(c.ci, head) {
			break
		}
		ok := c.decode(e, head, &wcs[n])
		spin.StoreRelease(&c.ci, c.ci+1)
		if !ok {
			skips++
			continue
		}
		c.count(&wcs[n])
		if wcs[n].Status != provider.WCSuccess {
			c.flushHeld(c.qp)
		}
		n = c.takeAdded(wcs, n+1)
		switch c.fast {
		case fastSend:
			n += c.requests(wcs[n:])
		case fastRecv:
			n += c.receives(wcs[n:])
		}
	}
	return n
}

// takeAdded moves completions from c.added to wcs[n] on, and returns how many of wcs are filled.
func (c *cq) takeAdded(wcs []provider.WC, n int) int {
	for n < len(wcs) && len(c.added) > 0 {
		wcs[n] = c.added[0]
		c.count(&wcs[n])
		n++
		if c.added = c.added[1:]; len(c.added) == 0 {
			c.added = nil
		}
	}
	return n
}

// forget resets the QP of the last completion.
func (c *cq) forget() { c.fast, c.qp = fastNone, nil }

// decode decodes an entry, and returns false if it makes no sense. The caller holds the lock.
func (c *cq) decode(e unsafe.Pointer, head uint32, w *provider.WC) bool {
	c.fast = fastNone
	num := big32(e, cqeQP)
	if c.qp == nil || c.qp.num != num {
		c.qp = c.ctx.qps.find(num)
	}
	q := c.qp
	if q == nil {
		return c.fail(e, nil, "no queue pair has the number")
	}
	index, code, st := big32(e, cqeIndex), uint8(head>>cqeOp), statuses[uint8(head>>cqeStatus)]
	*w = provider.WC{QPNum: num, Status: st.status, VendorErr: st.vendor, ByteLen: big32(e, cqeSize)}
	var op uint16
	switch uint8(head >> cqeQueue) {
	case queueSend:
		to := q.sq.outstanding(index)
		if to == nil || c != q.sendCQ {
			return c.fail(e, q, "completion of a request that was not posted")
		}
		w.ID, op = to.id, sendOpcodes[code]
		q.sq.free(to, index)
		c.fast = fastSend
	case queueRecv:
		if c != q.recvCQ || !q.rq.outstanding(index) {
			return c.fail(e, q, "completion of a receive that was not posted")
		}
		w.ID, op = q.rq.id(index), recvOpcodes[code]
		q.rq.free()
		c.fast = fastRecv
		more(w, e, code)
	default:
		return c.fail(e, q, "unknown queue")
	}
	w.Opcode = provider.WCOpcode(op &^ known)
	if op == 0 && w.Status == provider.WCSuccess {
		w.Status, w.VendorErr = provider.WCGeneralErr, uint32(code)
	}
	if w.Status != provider.WCSuccess {
		*w = provider.WC{ID: w.ID, QPNum: num, Status: w.Status, VendorErr: w.VendorErr, Opcode: w.Opcode}
		c.fast = fastNone
	}
	return true
}

// count counts a completion.
func (c *cq) count(w *provider.WC) {
	c.counts.Completions[min(w.Status, provider.WCGeneralErr)]++
	if w.Status == provider.WCSuccess && w.Opcode&provider.WCRecv != 0 {
		c.counts.Received.Add(uint64(w.ByteLen))
	}
}
