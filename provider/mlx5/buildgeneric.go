// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/provider/internal/spin"
)

// transport selects the segment between the control segment and the rest.
type transport uint8

const (
	transportConnected transport = iota // none
	transportXRC                        // the peer's SRQ
	transportUD                         // an address vector
	transportRaw                        // an Ethernet segment
	transportDC                         // an address vector with a key
)

// maxSegments is the longest WQE: its size has 6 bits.
const maxSegments = 1<<6 - 1

// wqe is a WQE that is being built, segment by segment. The ring may end before any
// of them.
type wqe struct {
	s  *sendQueue
	p  unsafe.Pointer // where the next segment begins
	ds uint32
}

// next returns where the next segment is to be written.
func (w *wqe) next() unsafe.Pointer {
	if uintptr(w.p) == w.s.end {
		w.p = w.s.buf
	}
	p := w.p
	w.p = unsafe.Add(p, segment)
	w.ds++
	return p
}

// bytes writes data into consecutive segments, from an offset in the first on, and
// pads nothing.
func (w *wqe) bytes(offset int, data []byte) {
	for first := true; first || len(data) > 0; first = false {
		p := w.next()
		data = data[copy(unsafe.Slice((*byte)(p), segment)[offset:], data):]
		offset = 0
	}
}

// target is the destination of a request of a DC initiator, in addition to its address.
type target struct {
	key    uint64
	stream uint16
}

// buildGeneric is build for every operation of every transport.
//
//go:noinline
func (s *sendQueue) buildGeneric(wr *provider.SendWR, cur, n uint32) uint32 {
	if s.transport == transportDC {
		return 0
	}
	return s.buildTo(wr, cur, n, target{})
}

// buildTo is buildGeneric that also accepts requests of a DC initiator.
func (s *sendQueue) buildTo(wr *provider.SendWR, cur, n uint32, to target) uint32 {
	av, err := s.check(wr)
	if err != nil {
		return 0
	}
	op := &s.ops[wr.Opcode&15]
	w := wqe{s: s, p: unsafe.Add(s.buf, uintptr(cur&s.mask)*wqebb)}
	ctrl := w.next()
	data := wr.InlineData
	switch s.transport {
	case transportXRC:
		if op.kind != opUMR {
			*(*uint32)(w.next()) = endian.Big32(wr.RemoteSRQN)
		}
	case transportUD:
		w.address(av, uint64(wr.RemoteQKey)<<32, wr.RemoteQPN)
	case transportDC:
		w.address(av, to.key, wr.RemoteQPN)
	case transportRaw:
		data = w.ethernet(wr)
	}
	imm := wr.ImmData&op.imm | wr.InvalidateRKey&op.inv
	if op.kind == opUMR {
		imm = w.umr(wr)
	} else {
		if op.kind == opRemote || op.kind == opRead || op.kind == opAtomic {
			w.remote(wr.RemoteAddr, wr.RKey)
		}
		if op.kind == opAtomic {
			w.atomic(wr)
		} else if data != nil {
			w.inline(data)
		} else {
			w.gather(wr.SGList)
		}
	}
	if w.ds > maxSegments {
		return 0
	}
	second := endian.Big64(s.flags[wr.Flags&7]) | uint64(to.stream)<<40 | uint64(imm)
	if wr.Flags&provider.SendFence == 0 {
		second |= uint64(s.fence) << 32
	}
	put64(unsafe.Add(ctrl, 8), second)
	put64(ctrl, uint64(uint16(cur))<<40|uint64(op.code)<<32|uint64(s.num|w.ds))
	s.tally(wr.Opcode, bytesOf(wr, op.kind))
	e := s.entry(cur)
	e.id = wr.ID
	spin.StoreRelease(&e.head, s.head+n)
	if op.kind == opUMR {
		e.umr = uint32(umrCompletes(wr.Opcode))
		s.setFence(ctrlSmallFence)
	} else if s.fence != 0 {
		s.setFence(0)
	}
	return w.ds
}

// remote writes a remote address segment.
func (w *wqe) remote(addr uint64, rkey uint32) {
	p := w.next()
	put64(p, addr)
	put64(unsafe.Add(p, 8), uint64(rkey)<<32)
}

// atomic writes an atomic segment, and the element for the old value. A FETCH_ADD has no
// comparison, so the second half of its segment is not used.
func (w *wqe) atomic(wr *provider.SendWR) {
	p := w.next()
	if wr.Opcode == provider.OpCompareSwap {
		put64(p, wr.Swap)
		put64(unsafe.Add(p, 8), wr.CompareAdd)
	} else {
		put64(p, wr.CompareAdd)
	}
	for i := range wr.SGList {
		if e := &wr.SGList[i]; e.Length != 0 {
			putData(w.next(), atomicSize, e.LKey, e.Addr)
		}
	}
}

// atomicSize is the number of bytes that an atomic changes.
const atomicSize = 8

// gather writes the data segments.
func (w *wqe) gather(sg []provider.SGE) {
	for i := range sg {
		if e := &sg[i]; e.Length != 0 {
			putData(w.next(), e.Length, e.LKey, e.Addr)
		}
	}
}

// inline writes an inline segment, unless it would be empty.
func (w *wqe) inline(data []byte) {
	if len(data) == 0 {
		return
	}
	if uintptr(w.p) == w.s.end {
		w.p = w.s.buf
	}
	w.ds += w.s.putInline(w.p, data)
}
