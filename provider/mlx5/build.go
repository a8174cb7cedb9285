// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/internal/endian"
	"purerdma/provider/internal/spin"
)

// Bits of the third word of a control segment (PRM, "Control Segment Format").
const (
	ctrlSolicited  = 1 << 1
	ctrlCQE        = 2 << 2 // complete with a CQE
	ctrlSmallFence = 1 << 5 // start after local invalidations
	ctrlFence      = 4 << 5 // start after reads and atomics

	ctrlFlagsAt = 11 // offset of the byte with these bits
)

// inlineSegment marks the length of an inline segment.
const inlineSegment = 1 << 31

// ctrlFlags are the bits of a control segment for the flags of a request.
var ctrlFlags = [8]uint8{
	1: ctrlFence, 2: ctrlCQE, 3: ctrlFence | ctrlCQE,
	4: ctrlSolicited, 5: ctrlSolicited | ctrlFence, 6: ctrlSolicited | ctrlCQE, 7: ctrlSolicited | ctrlFence | ctrlCQE,
}

// build writes one request into the ring from block cur on, as the n-th after head, and returns the
// number of its segments. If the request does not fit, it returns 0 and leaves the queue unchanged.
// refusal then finds the reason. The caller holds the lock. Requests with inline data are built by
// buildInline.
//
// It is a leaf without a frame, for requests of one element or none on connected transports.
// buildMany and buildGeneric build the others.
func (s *sendQueue) build(wr *provider.SendWR, cur, n uint32) uint32 {
	sg := wr.SGList
	code := wr.Opcode & 15
	op := &s.ops[code]
	if wr.Opcode > 15 || !op.fast || s.fence != 0 || len(sg) > int(s.maxSGE) {
		return s.buildGeneric(wr, cur, n)
	}
	at := cur & s.mask
	wqe := unsafe.Add(s.buf, uintptr(at)*wqebb)
	seg, ds := unsafe.Add(wqe, segment), uint32(1)
	if op.kind != opPlain {
		put64(unsafe.Add(wqe, 16), wr.RemoteAddr)
		put64(unsafe.Add(wqe, 24), uint64(wr.RKey)<<32)
		seg, ds = unsafe.Add(wqe, 2*segment), 2
	}
	c := &s.counts[code]
	if len(sg) == 1 && int32(sg[0].Length) > 0 {
		add(&c.Bytes, uint64(sg[0].Length))
		putData(seg, sg[0].Length, sg[0].LKey, sg[0].Addr)
		ds++
	} else if len(sg) != 0 {
		return s.buildMany(wr, cur, n)
	}
	add(&c.Operations, 1)
	s.control(wqe, wr, op, cur, ds)
	e := (*pendingWR)(unsafe.Add(unsafe.Pointer(s.pending), uintptr(at)*unsafe.Sizeof(pendingWR{})))
	e.id = wr.ID
	spin.StoreRelease(&e.head, s.head+n)
	return ds
}

// control writes the control segment of a WQE of ds segments.
func (s *sendQueue) control(wqe unsafe.Pointer, wr *provider.SendWR, op *operation, cur, ds uint32) {
	put64(wqe, uint64(uint16(cur))<<40|uint64(op.code)<<32|uint64(s.num|ds))
	*(*uint64)(unsafe.Add(wqe, 8)) = s.flags[wr.Flags&7] | endian.Big64(uint64(wr.ImmData&op.imm|wr.InvalidateRKey&op.inv))
}

// buildMany is build for several elements, of which build has written the remote
// address.
//
//go:noinline
func (s *sendQueue) buildMany(wr *provider.SendWR, cur, n uint32) uint32 {
	op := &s.ops[wr.Opcode&15]
	wqe := unsafe.Add(s.buf, uintptr(cur&s.mask)*wqebb)
	ds := uint32(1)
	if op.kind != opPlain {
		ds = 2
	}
	if ds = s.gather(unsafe.Add(wqe, uintptr(ds)*segment), wr.SGList, ds); ds == 0 {
		return 0
	}
	s.control(wqe, wr, op, cur, ds)
	s.tally(wr.Opcode, bytesOf(wr, op.kind))
	e := s.entry(cur)
	e.id = wr.ID
	spin.StoreRelease(&e.head, s.head+n)
	return ds
}

// buildInline is build for a request with inline data.
func (s *sendQueue) buildInline(wr *provider.SendWR, cur, n uint32) uint32 {
	data := wr.InlineData
	code := wr.Opcode & 15
	op := &s.ops[code]
	if wr.Opcode > 15 || !op.fast || op.kind == opRead || s.fence != 0 || len(data) > int(s.maxInline) {
		return s.buildGeneric(wr, cur, n)
	}
	wqe := unsafe.Add(s.buf, uintptr(cur&s.mask)*wqebb)
	seg, ds := unsafe.Add(wqe, segment), uint32(1)
	if op.kind != opPlain {
		put64(unsafe.Add(wqe, 16), wr.RemoteAddr)
		put64(unsafe.Add(wqe, 24), uint64(wr.RKey)<<32)
		seg, ds = unsafe.Add(wqe, 2*segment), 2
	}
	ds += s.putInline(seg, data)
	s.control(wqe, wr, op, cur, ds)
	s.tally(code, uint64(len(data)))
	e := s.entry(cur)
	e.id = wr.ID
	spin.StoreRelease(&e.head, s.head+n)
	return ds
}

// putInline writes an inline segment that begins at seg, which need not be wrapped,
// and returns its size in segments: 0 for no data.
func (s *sendQueue) putInline(seg unsafe.Pointer, data []byte) uint32 {
	n := uint32(len(data))
	if n == 0 {
		return 0
	}
	dst := unsafe.Add(seg, 4)
	if room := s.end - uintptr(dst); uintptr(n) <= room {
		copy(unsafe.Slice((*byte)(dst), n), data)
	} else {
		copy(unsafe.Slice((*byte)(dst), room), data)
		copy(unsafe.Slice((*byte)(s.buf), uintptr(n)-room), data[room:])
	}
	*(*uint32)(seg) = endian.Big32(n | inlineSegment)
	return (n + 4 + segment - 1) / segment
}

// gather writes the data segments of a request that has ds segments already, and
// returns how many it has then, or 0 if an element is too long. Empty elements are
// left out. The ring may end before any of them.
func (s *sendQueue) gather(seg unsafe.Pointer, sg []provider.SGE, ds uint32) uint32 {
	for i := range sg {
		e := &sg[i]
		if e.Length == 0 {
			continue
		}
		if e.Length > maxSGELength {
			return 0
		}
		if uintptr(seg) == s.end {
			seg = s.buf
		}
		putData(seg, e.Length, e.LKey, e.Addr)
		seg = unsafe.Add(seg, segment)
		ds++
	}
	return ds
}
