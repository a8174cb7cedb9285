// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"unsafe"

	"purerdma/provider"
)

// The device may write small data into the CQE instead of the memory that the request names, which
// saves one write over the bus. The data is of a READ or a receive and has up to 32 bytes, or 64 in
// CQEs of 128. The poll copies it to the memory. (libmlx5 does so only for requests of RC, and
// fails requests of other transports.)

// lockToCopy takes the lock of an unlocked CQ. A poll takes it before the first data that it copies
// and releases it at its end, because another goroutine may close the memory region
// (pd.removeRegion).
//
//go:noinline
func (c *CQ) lockToCopy() {
	if !c.copying {
		c.lock.Lock()
		c.copying = true
	}
}

// awaitCopies waits for a poll that copies data.
func (c *CQ) awaitCopies() {
	c.lock.Lock()
	defer c.lock.Unlock()
}

// data returns the data in a CQE, and false if the length is impossible. The caller may copy the
// bytes until it releases the CQ.
func (c *CQ) data(e unsafe.Pointer, format, length uint32) ([]byte, bool) {
	if c.unlocked {
		c.lockToCopy()
	}
	switch {
	case format == formatScatter32 && length <= 32:
		return unsafe.Slice((*byte)(e), length), true
	case format == formatScatter64 && length <= cqeSize && c.shift == log128:
		return unsafe.Slice((*byte)(unsafe.Add(e, -cqeSize)), length), true
	}
	return nil, false
}

// scatter copies data to the memory that the n data segments at seg name, in order.
func (p *pd) scatter(seg unsafe.Pointer, n int, data []byte) provider.WCStatus {
	for range n {
		if len(data) == 0 {
			break
		}
		var st provider.WCStatus
		if data, st = p.scatterOne(seg, data); st != provider.WCSuccess {
			return st
		}
		seg = unsafe.Add(seg, segment)
	}
	if len(data) > 0 {
		return provider.WCLocLenErr
	}
	return provider.WCSuccess
}

// scatterOne copies what fits of data to the memory of one data segment and returns
// the rest.
func (p *pd) scatterOne(seg unsafe.Pointer, data []byte) ([]byte, provider.WCStatus) {
	n := min(uint64(len(data)), uint64(load32(seg, 0)))
	if n == 0 {
		return data, provider.WCSuccess
	}
	lkey, addr := load32(seg, 4), load64(seg, 8)
	if lkey == p.ctx.caps.dumpFillMKey {
		return data[n:], provider.WCSuccess
	}
	// Without a region it was deregistered, is another PD's, or was not made by RegMR.
	if m := p.regions.find(lkey); m == nil || !m.write(addr, data[:n]) {
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
		if data, st = q.pd.scatterOne(at(seg), data); st != provider.WCSuccess {
			return st
		}
	}
	if len(data) > 0 {
		return provider.WCLocLenErr
	}
	return provider.WCSuccess
}
