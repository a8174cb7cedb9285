// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"unsafe"

	"purerdma/provider"
)

// outcome is the result of decoding an entry.
type outcome uint8

const (
	again   outcome = iota // the entry has been rewritten and must be decoded again.
	took                   // it was a completion
	skipped                // it was none, or it is invalid
	failed                 // it is invalid, and the CQ has stopped
)

// requests maps the opcode in the CQE to the completion of a send request. The value has WC.Opcode,
// WC.Flags << 8, and the source of WC.ByteLen. 0 marks an unknown opcode.
var requests = [256]uint32{
	opcodeSendInv:  uint32(provider.WCSend) | lengthNone,
	opcodeWrite:    uint32(provider.WCWrite) | lengthNone,
	opcodeWriteImm: uint32(provider.WCWrite) | uint32(provider.WCWithImm)<<8 | lengthNone,
	opcodeSend:     uint32(provider.WCSend) | lengthNone,
	opcodeSendImm:  uint32(provider.WCSend) | uint32(provider.WCWithImm)<<8 | lengthNone,
	opcodeLSO:      uint32(provider.WCLSO) | lengthNone,
	opcodeRead:     uint32(provider.WCRead) | lengthCQE,
	opcodeAtomicCS: uint32(provider.WCCompareSwap) | lengthAtomic,
	opcodeAtomicFA: uint32(provider.WCFetchAdd) | lengthAtomic,
}

// Sources of WC.ByteLen.
const (
	lengthNone   = 1 << 16
	lengthAtomic = 2 << 16 // 8 bytes
	lengthCQE    = 3 << 16
)

// other decodes all entries except successful requests of the QP of the last completion.
func (c *CQ) other(ci uint32, e unsafe.Pointer, last uint32, w *provider.WC) outcome {
	op, format := last>>4&15, last>>2&3
	if index := load32(e, cqeUIdx) & 0xffffff; index != c.index {
		c.find(index)
	}
	if op > cqeRespSendInv && op != cqeReqErr && op != cqeRespErr {
		if c.qp != nil && c.qp.num != load32(e, cqeOpQPN)&0xffffff {
			c.forget() // the layout differs, and the entry names no QP
		}
		return c.fail(e, "unknown opcode")
	}
	if c.index == noIndex {
		return c.fail(e, "no queue has the user index")
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
	request := q.sq.outstanding(counter)
	if request == nil {
		return c.fail(e, "completion of a request that was not posted")
	}
	*w = provider.WC{ID: request.id, QPNum: q.num}
	op := load8(e, cqeOpQPN)
	switch r := requests[op]; {
	case r != 0:
		w.Opcode, w.Flags = provider.WCOpcode(r&0xff), provider.WCFlags(r>>8&0xff)
		switch r &^ 0xffff {
		case lengthAtomic:
			w.ByteLen = 8
		case lengthCQE:
			w.ByteLen = load32(e, cqeByteCount)
		}
	case op == opcodeUMR || op == opcodeNOP:
		w.Opcode = provider.WCOpcode(request.umr)
	default:
		w.Status = provider.WCGeneralErr
	}
	switch {
	case w.Status != provider.WCSuccess:
	case format == formatPlain:
		c.fast = fastSend
	default:
		st := provider.WCGeneralErr
		if data, ok := c.data(e, format, w.ByteLen); ok {
			st = q.scatterSend(counter, data)
		}
		if st != provider.WCSuccess {
			*w = provider.WC{ID: w.ID, Status: st, QPNum: q.num}
		}
	}
	// This comes last, because the next post may overwrite the WQE and its record.
	q.sq.free(request)
	return took
}

// requestFailed decodes the completion of a request that failed.
func (c *CQ) requestFailed(e unsafe.Pointer, counter uint16, w *provider.WC) outcome {
	if c.qp == nil {
		return c.fail(e, "completion of a request to an SRQ")
	}
	s := &c.qp.sq
	request := s.outstanding(counter)
	if request == nil {
		return c.fail(e, "completion of a request that was not posted")
	}
	*w = provider.WC{ID: request.id, Status: syndromes[load8(e, cqeSyndrome)], VendorErr: uint32(load8(e, cqeVendorErr)), QPNum: c.qp.num}
	s.free(request)
	return took
}

// owner returns the queue whose receive has completed, and the number of the QP. The queue is the
// QP's own or, if the second result is not nil, an SRQ. For a QP on an XRC SRQ the number is from
// the CQE, because the QP may belong to another process.
func (c *CQ) owner(e unsafe.Pointer) (*recvQueue, *SRQ, uint32) {
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
	rq, srq, num := c.owner(e)
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
	} else if ok = rq.outstanding(counter); ok {
		w.ID = rq.id(uint32(counter))
		if len(data) > 0 {
			st = c.qp.pd.scatter(rq.slot(counter), int(rq.maxSGE), data)
		}
		rq.free() // last: the next post may overwrite the slot
	}
	if !ok {
		return c.fail(e, "completion of a receive that was not posted")
	}
	if st != provider.WCSuccess {
		*w = provider.WC{ID: w.ID, Status: st, QPNum: num}
		return took
	}
	path := e
	if format == formatScatter32 {
		path = noPath
	}
	c.fillReceive(e, path, op, w)
	w.QPNum = num
	if rq != nil {
		if c.fast = fastRecv; rq.checksums {
			w.Flags |= checksumsRight(e)
		}
	}
	return took
}

// receiveFailed decodes the completion of a receive that failed.
func (c *CQ) receiveFailed(e unsafe.Pointer, counter uint16, w *provider.WC) outcome {
	rq, srq, num := c.owner(e)
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
