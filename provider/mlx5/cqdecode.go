// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"unsafe"

	"purerdma/provider"
)

// outcome is what became of an entry.
type outcome uint8

const (
	again   outcome = iota // the entry has been rewritten: look at it anew
	took                   // it was a completion
	skipped                // it was not one
	failed                 // it makes no sense
)

// requests is what the operations of send queues complete as, by the opcode in the
// CQE.
var requests = [256]struct {
	opcode uint8 // provider.WCOpcode
	flags  uint8 // provider.WCFlags
	length length
	known  bool
}{
	0x00:           {0, 0, lengthUMR, true},
	opcodeSendInv:  {uint8(provider.WCSend), 0, lengthNone, true},
	opcodeWrite:    {uint8(provider.WCWrite), 0, lengthNone, true},
	opcodeWriteImm: {uint8(provider.WCWrite), uint8(provider.WCWithImm), lengthNone, true},
	opcodeSend:     {uint8(provider.WCSend), 0, lengthNone, true},
	opcodeSendImm:  {uint8(provider.WCSend), uint8(provider.WCWithImm), lengthNone, true},
	opcodeLSO:      {uint8(provider.WCLSO), 0, lengthNone, true},
	opcodeRead:     {uint8(provider.WCRead), 0, lengthCQE, true},
	opcodeAtomicCS: {uint8(provider.WCCompareSwap), 0, lengthAtomic, true},
	opcodeAtomicFA: {uint8(provider.WCFetchAdd), 0, lengthAtomic, true},
	opcodeUMR:      {0, 0, lengthUMR, true},
}

// length is where WC.ByteLen comes from.
type length uint8

const (
	lengthNone   length = iota
	lengthCQE           // from the CQE
	lengthAtomic        // 8
	lengthUMR           // there is none, and the operation is as the send queue knows
)

// request decodes the completion of a request that succeeded, and frees its place.
// It returns false, and has done nothing, if no such request was posted or its
// operation does not exist. The fields are filled one by one, which is faster than a
// literal that is made first and then copied.
func (q *QP) request(e unsafe.Pointer, counter uint16, w *provider.WC) bool {
	r := &requests[load8(e, cqeOpQPN)]
	if !r.known {
		return false
	}
	id, ok := q.sq.completed(counter)
	if !ok {
		return false
	}
	w.ID = id
	w.Status = provider.WCSuccess
	w.Opcode = provider.WCOpcode(r.opcode)
	w.QPNum = q.num
	w.ByteLen = 0
	w.ImmData = 0
	w.InvalidatedRKey = 0
	w.VendorErr = 0
	w.SrcQP = 0
	w.Flags = provider.WCFlags(r.flags)
	w.SLID = 0
	w.PKeyIndex = 0
	w.SL = 0
	w.DLIDPathBits = 0
	switch r.length {
	case lengthNone:
	case lengthCQE:
		w.ByteLen = load32(e, cqeByteCount)
	case lengthAtomic:
		w.ByteLen = 8
	case lengthUMR:
		w.Opcode = q.sq.umrOpcode(counter)
	}
	return true
}

// other decodes what is not a request that succeeded of the QP whose completion was
// the last.
func (c *CQ) other(ci uint32, e unsafe.Pointer, last uint32, w *provider.WC) outcome {
	op, format := last>>4&15, last>>2&3
	if op > cqeRespSendInv && op != cqeReqErr && op != cqeRespErr {
		return c.fail(e, "unknown opcode")
	}
	if index := load32(e, cqeUIdx) & 0xffffff; index != c.index {
		if c.find(index); c.index == noIndex {
			return c.fail(e, "no queue has the user index")
		}
	}
	counter := uint16(last >> 16)
	switch {
	case op <= cqeRespSendInv && format == formatCompressed:
		return c.decompress(ci, e)
	case op == cqeReq:
		return c.requested(e, counter, format, w)
	case op == cqeReqErr:
		return c.requestFailed(e, counter, w)
	case op == cqeRespErr:
		return c.receiveFailed(e, counter, w)
	}
	return c.received(e, op, counter, format, w)
}

// requested decodes the completion of a request that succeeded.
func (c *CQ) requested(e unsafe.Pointer, counter uint16, format uint32, w *provider.WC) outcome {
	q := c.qp
	if q == nil {
		return c.fail(e, "completion of a request to an SRQ")
	}
	if !q.request(e, counter, w) {
		id, ok := q.sq.completed(counter)
		if !ok {
			return c.fail(e, "completion of a request that was not posted")
		}
		*w = provider.WC{ID: id, Status: provider.WCGeneralErr, QPNum: q.num}
		return took
	}
	if format == formatPlain {
		return took
	}
	data, ok := c.data(e, format, w.ByteLen)
	st := provider.WCGeneralErr
	if ok {
		st = q.scatterSend(counter, data)
	}
	if st != provider.WCSuccess {
		*w = provider.WC{ID: w.ID, Status: st, QPNum: q.num}
	}
	return took
}

// requestFailed decodes the completion of a request that failed.
func (c *CQ) requestFailed(e unsafe.Pointer, counter uint16, w *provider.WC) outcome {
	if c.qp == nil {
		return c.fail(e, "completion of a request to an SRQ")
	}
	id, ok := c.qp.sq.completed(counter)
	if !ok {
		return c.fail(e, "completion of a request that was not posted")
	}
	*w = provider.WC{ID: id, Status: syndromes[load8(e, cqeSyndrome)], VendorErr: uint32(load8(e, cqeVendorErr)), QPNum: c.qp.num}
	return took
}

// receives returns whose receive has completed: that of a QP's own queue or, if
// the second is not nil, of an SRQ; and the number of the QP. That of a QP on an XRC
// SRQ stands in the CQE: it may be of another process.
func (c *CQ) receives(e unsafe.Pointer) (*recvQueue, *SRQ, uint32) {
	switch {
	case c.qp == nil:
		return nil, c.srq, load32(e, cqeOpQPN) & 0xffffff
	case c.qp.srq != nil:
		return nil, c.qp.srq, c.qp.num
	}
	return &c.qp.rq, nil, c.qp.num
}

// received decodes the completion of a receive that succeeded.
func (c *CQ) received(e unsafe.Pointer, op uint32, counter uint16, format uint32, w *provider.WC) outcome {
	rq, srq, num := c.receives(e)
	byteLen := load32(e, cqeByteCount)
	var data []byte
	st := provider.WCSuccess
	if format != formatPlain {
		var ok bool
		if data, ok = c.data(e, format, byteLen); !ok {
			st = provider.WCGeneralErr
		}
	}
	var ok bool
	if srq != nil {
		var sst provider.WCStatus
		w.ID, sst, ok = srq.complete(counter, data)
		st = max(st, sst)
	} else if w.ID, ok = rq.complete(counter); ok && len(data) > 0 {
		st = c.ctx.scatter(rq.slot(counter), int(rq.maxSGE), data)
	}
	if !ok {
		return c.fail(e, "completion of a receive that was not posted")
	}
	if st != provider.WCSuccess {
		*w = provider.WC{ID: w.ID, Status: st, QPNum: num}
		return took
	}
	imm := load32(e, cqeImm)
	w.Status = provider.WCSuccess
	w.Opcode = provider.WCRecv
	w.QPNum = num
	w.ByteLen = byteLen
	w.ImmData = 0
	w.InvalidatedRKey = 0
	w.VendorErr = 0
	var flags provider.WCFlags
	switch op {
	case cqeRespWrImm:
		w.Opcode = provider.WCRecvWriteImm
		fallthrough
	case cqeRespSendImm:
		w.ImmData = imm
		flags = provider.WCWithImm
	case cqeRespSendInv:
		w.InvalidatedRKey = imm
		flags = provider.WCWithInv
	}
	from := load32(e, cqeFlagsRQPN)
	if from>>28&3 != 0 {
		flags |= provider.WCGRH
	}
	if rq != nil && rq.checksums && load8(e, cqeCsumOK)&(csumL3OK|csumL4OK) == csumL3OK|csumL4OK && load8(e, cqeL3Type)>>2&3 == l3IPv4 {
		flags |= provider.WCIPCsumOK
	}
	w.SrcQP = from & 0xffffff
	w.Flags = flags
	w.SLID = load16(e, cqeSLID)
	w.PKeyIndex = uint16(imm)
	w.SL = uint8(from>>24) & 0xf
	w.DLIDPathBits = load8(e, cqeMLPath) & 0x7f
	return took
}

// receiveFailed decodes the completion of a receive that failed.
func (c *CQ) receiveFailed(e unsafe.Pointer, counter uint16, w *provider.WC) outcome {
	rq, srq, num := c.receives(e)
	syndrome, vendor := load8(e, cqeSyndrome), load8(e, cqeVendorErr)
	var id uint64
	var ok bool
	switch {
	case srq == nil:
		id, ok = rq.complete(counter)
	case syndrome == syndromeAborted && vendor == vendorPageFault:
		if srq.repost(counter) {
			return skipped
		}
	default:
		id, _, ok = srq.complete(counter, nil)
	}
	if !ok {
		return c.fail(e, "completion of a receive that was not posted")
	}
	*w = provider.WC{ID: id, Status: syndromes[syndrome], VendorErr: uint32(vendor), QPNum: num}
	return took
}
