// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"unsafe"

	"purerdma/provider"
)

// Up to 32 bytes, or 64 in CQEs of 128, that a request reads or a receive gets the
// device may write into the CQE instead of the memory that the request names: one
// write over the bus less. Who polls copies them there. (libmlx5 does so for requests
// of RC alone, and fails those of other transports.)

// data returns the bytes that a CQE brings itself; false if there cannot be as many.
func (c *CQ) data(e unsafe.Pointer, format, length uint32) ([]byte, bool) {
	switch {
	case format == formatScatter32 && length <= 32:
		return unsafe.Slice((*byte)(e), length), true
	case format == formatScatter64 && length <= cqeSize && c.shift == log128:
		return unsafe.Slice((*byte)(unsafe.Add(e, -cqeSize)), length), true
	}
	return nil, false
}

// scatter copies data to the memory that the n data segments at p name, in order.
func (c *Context) scatter(p unsafe.Pointer, n int, data []byte) provider.WCStatus {
	for range n {
		if len(data) == 0 {
			break
		}
		var st provider.WCStatus
		if data, st = c.scatterOne(p, data); st != provider.WCSuccess {
			return st
		}
		p = unsafe.Add(p, segment)
	}
	if len(data) > 0 {
		return provider.WCLocLenErr
	}
	return provider.WCSuccess
}

// scatterOne copies what fits of data to the memory of one data segment and returns
// the rest.
func (c *Context) scatterOne(p unsafe.Pointer, data []byte) ([]byte, provider.WCStatus) {
	n := min(uint64(len(data)), uint64(load32(p, 0)))
	if n == 0 {
		return data, provider.WCSuccess
	}
	lkey, addr := load32(p, 4), load64(p, 8)
	if lkey != c.caps.dumpFillMKey && !c.regions.write(lkey, addr, data[:n]) {
		// The memory region is gone, or was not made by this context.
		return data, provider.WCLocProtErr
	}
	return data[n:], provider.WCSuccess
}

// scatterSend copies data to the memory of the READ or atomic whose WQE has this
// index. The WQE may begin at the end of the ring and go on at its start.
func (q *QP) scatterSend(index uint16, data []byte) provider.WCStatus {
	sq := &q.sq
	start := (uint32(index) & sq.mask) * wqebb
	at := func(seg uint32) unsafe.Pointer {
		return unsafe.Add(sq.buf, (start+seg*segment)&((sq.mask+1)*wqebb-1))
	}
	first := uint32(controlSize + remoteSize)
	switch load32(at(0), 0) & 0xff {
	case opcodeRead:
	case opcodeAtomicCS, opcodeAtomicFA:
		first += atomicSeg
	default:
		return provider.WCRemInvReqErr
	}
	switch sq.transport {
	case transportConnected:
	case transportXRC:
		first += xrcSize
	case transportDC:
		first += addressSize
	default:
		return provider.WCGeneralErr
	}
	for seg := first / segment; seg < load32(at(0), 4)&0x3f && len(data) > 0; seg++ {
		var st provider.WCStatus
		if data, st = q.ctx.scatterOne(at(seg), data); st != provider.WCSuccess {
			return st
		}
	}
	if len(data) > 0 {
		return provider.WCLocLenErr
	}
	return provider.WCSuccess
}
