// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"sync/atomic"
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/internal/spin"
)

// Most completions resemble the previous one. They are successful and of a request or a receive of
// the previous QP. Loops of their own handle these. They keep their data in registers and fill a WC
// field by field, which is faster than a literal, which is made first and then copied. The loops
// end at the first completion of another kind, and at any unusual one.

// Kinds of the last completion (CQ.fast). The CQ has a QP unless it is fastNone.
const (
	fastNone uint8 = iota
	fastSend       // a request
	fastRecv       // a receive of the QP's own queue
)

// requests takes completions of requests that succeeded, of the QP whose completion
// was the last.
func (c *CQ) requests(wcs []provider.WC) int {
	q := c.qp
	s := &q.sq
	ci, index, log, mask, shift, ring := c.ci, c.index, c.log&31, c.mask, c.shift&31, c.ring
	tail := s.tail
	n := 0
	for n < len(wcs) {
		e := unsafe.Add(ring, uintptr(ci&mask)<<shift)
		last := lastWord(e)
		// One comparison checks three conditions. The software owns the entry, the entry is a
		// successful request, and it is plain.
		if (last^ci>>log&1)&0xfd != 0 || load32(e, cqeUIdx)&0xffffff != index {
			break
		}
		r := requests[load8(e, cqeOpQPN)]
		// Loaded anew each time, because it acquires the stores of the request's post.
		head := atomic.LoadUint32(&s.head)
		to := s.entry(last >> 16)
		if r == 0 || atomic.LoadUint32(&to.head)-tail >= head-tail {
			break
		}
		tail = to.head + 1
		w := &wcs[n]
		w.ID = to.id
		w.Status = provider.WCSuccess
		w.Opcode = provider.WCOpcode(r & 0xff)
		w.QPNum = q.num
		w.ByteLen = 0
		w.ImmData = 0
		w.InvalidatedRKey = 0
		w.VendorErr = 0
		w.SrcQP = 0
		w.Flags = provider.WCFlags(r >> 8 & 0xff)
		w.SLID = 0
		w.PKeyIndex = 0
		w.SL = 0
		w.DLIDPathBits = 0
		if r >= lengthAtomic {
			if w.ByteLen = 8; r >= lengthCQE {
				w.ByteLen = load32(e, cqeByteCount)
			}
		}
		ci++
		n++
	}
	if n > 0 {
		add(&c.counts.Completions[provider.WCSuccess], uint64(n))
		spin.StoreRelease(&s.tail, tail)
		spin.StoreRelease(&c.ci, ci)
	}
	return n
}

// receives takes completions of receives that succeeded, of the receive queue of the
// QP whose completion was the last. Some may bring up to 32 bytes of data.
func (c *CQ) receives(wcs []provider.WC) int {
	q := c.qp
	r := &q.rq
	ci, index, log, mask, shift, ring := c.ci, c.index, c.log&31, c.mask, c.shift&31, c.ring
	tail := r.tail
	n, bytes := 0, uint64(0)
	for n < len(wcs) {
		e := unsafe.Add(ring, uintptr(ci&mask)<<shift)
		last := lastWord(e)
		op := last >> 4 & 15
		// The software owns the entry, and it is of formatPlain or formatScatter32.
		if (last^ci>>log&1)&0x09 != 0 || op-cqeRespWrImm > cqeRespSendInv-cqeRespWrImm || load32(e, cqeUIdx)&0xffffff != index {
			break
		}
		if (last>>16-tail)&r.mask != 0 || atomic.LoadUint32(&r.head) == tail {
			break
		}
		path := e
		if last&(formatScatter32<<2) != 0 {
			if !c.copyShort(q.pd, r.slot(uint16(last>>16)), e) {
				break
			}
			path = noPath
		}
		w := &wcs[n]
		w.ID = r.id(last >> 16)
		c.fillReceive(e, path, op, w)
		w.QPNum = q.num
		if r.checksums {
			w.Flags |= checksumsRight(e)
		}
		bytes += uint64(w.ByteLen)
		tail++
		ci++
		n++
	}
	if n > 0 {
		add(&c.counts.Completions[provider.WCSuccess], uint64(n))
		add(&c.counts.Received.Operations, uint64(n))
		add(&c.counts.Received.Bytes, bytes)
		spin.StoreRelease(&r.tail, tail)
		spin.StoreRelease(&c.ci, ci)
	}
	return n
}

// copyShort copies the data of a CQE of formatScatter32 to the first element at slot. It
// returns false if they do not fit there, or must not be written there.
func (c *CQ) copyShort(p *pd, slot, e unsafe.Pointer) bool {
	n := load32(e, cqeByteCount)
	if n > 32 || n > load32(slot, 0) {
		return false
	}
	if c.unlocked {
		c.lockToCopy()
	}
	m := p.regions.find(load32(slot, 4))
	return m != nil && m.write(load64(slot, 8), unsafe.Slice((*byte)(e), n))
}

// noPath takes the place of the first half of a CQE of formatScatter32, which holds data
// instead of the fields about the sender and the packet.
var noPath = unsafe.Pointer(new([cqeSize / 2]byte))

// kinds maps the opcode of the CQE to the completion of a receive. It has the WC's opcode and
// flags, and masks for the parts of cqeImm that are immediate data and a key.
var kinds = [16]struct{ opcode, flags, imm, key uint32 }{
	cqeRespWrImm:   {uint32(provider.WCRecvWriteImm), uint32(provider.WCWithImm), ^uint32(0), 0},
	cqeRespSend:    {uint32(provider.WCRecv), 0, 0, 0},
	cqeRespSendImm: {uint32(provider.WCRecv), uint32(provider.WCWithImm), ^uint32(0), 0},
	cqeRespSendInv: {uint32(provider.WCRecv), uint32(provider.WCWithInv), 0, ^uint32(0)},
}

// fillReceive fills the WC of a successful receive, without its ID, QPNum and WCIPCsumOK. path is
// the CQE, or noPath.
func (c *CQ) fillReceive(e, path unsafe.Pointer, op uint32, w *provider.WC) {
	k := &kinds[op&15]
	imm, from := load32(e, cqeImm), load32(path, cqeFlagsRQPN)
	flags := k.flags
	if from&(3<<28) != 0 {
		flags |= uint32(provider.WCGRH)
	}
	w.Status = provider.WCSuccess
	w.Opcode = provider.WCOpcode(k.opcode)
	w.ByteLen = load32(e, cqeByteCount)
	w.ImmData = imm & k.imm
	w.InvalidatedRKey = imm & k.key
	w.VendorErr = 0
	w.SrcQP = from & 0xffffff
	w.Flags = provider.WCFlags(flags)
	w.PKeyIndex = uint16(imm)
	if c.ethernet {
		w.SLID, w.SL, w.DLIDPathBits = 0, vlanPriority(path), 0
		return
	}
	w.SLID = load16(path, cqeSLID)
	w.SL = uint8(from>>24) & 0xf
	w.DLIDPathBits = load8(path, cqeMLPath) & 0x7f
}

// vlanPriority returns the priority of a received packet's VLAN tag, or 0 if it has no tag. On
// Ethernet it is the service level, as in mlx5_ib (handle_responder). The bits of the service level
// hold the version of RoCE there.
func vlanPriority(e unsafe.Pointer) uint8 {
	if load8(e, cqeL3Type)&vlanPresent == 0 {
		return 0
	}
	return uint8(load16(e, cqeVLAN) >> 13)
}

// checksumsRight returns WCIPCsumOK if the device has found the checksums of a packet
// of IPv4 right, else 0.
func checksumsRight(e unsafe.Pointer) provider.WCFlags {
	const both = csumL3OK | csumL4OK
	if load8(e, cqeCsumOK)&both == both && load8(e, cqeL3Type)>>2&3 == l3IPv4 {
		return provider.WCIPCsumOK
	}
	return 0
}
