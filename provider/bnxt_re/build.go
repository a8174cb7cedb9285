// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"unsafe"

	"purerdma/provider"
)

// build writes one request into the ring, at the position s.at, which it moves on. If the request cannot be posted, it
// returns false, and check finds the reason. The caller holds the lock.
//
// It builds SENDs and WRITEs of one element, or of inline data, of a QP of type RC. buildOther builds the other requests.
// Fields that the adapter ignores keep their old content, as with libbnxt_re.
func (s *sendQueue) build(wr *provider.SendWR) bool {
	sg := wr.SGList
	op := &s.ops[wr.Opcode&15]
	const slots = headerSlots + 1
	switch {
	case wr.Opcode > 15 || op.kind-1 >= opReads-1 || s.search.kind&searchUD != 0:
		return s.buildOther(wr)
	case wr.InlineData != nil:
		return s.buildInline(wr, op)
	case len(sg) != 1 || s.maxSGE < 1 || s.at.slot+slots > s.depth || sg[0].Length > maxMessage:
		return s.buildOther(wr)
	}
	p := s.slotAt(s.at.slot)
	length := sg[0].Length
	head := s.heads[wr.Flags&7] | slots<<headSlots | uint32(op.code)
	put32(p, 0, head)
	if op.extra {
		put32(p, wqeKey, extras(wr))
	}
	put64(p, wqeLength, uint64(length))
	if op.kind == opWrites {
		put64(p, wqeRemote, wr.RemoteAddr)
		put32(p, wqeRKey, wr.RKey)
	}
	putSGE(unsafe.Add(p, headerSlots*slotSize), sg[0].Addr, length, sg[0].LKey)
	s.finish(wr, slots, length, head)
	return true
}

// buildInline is build for inline data.
func (s *sendQueue) buildInline(wr *provider.SendWR, op *operation) bool {
	length := uint32(len(wr.InlineData))
	slots := headerSlots + (length+slotSize-1)>>slotShift
	if len(wr.InlineData) > int(s.maxData) || s.at.slot+slots > s.depth {
		return s.buildOther(wr)
	}
	p := s.slotAt(s.at.slot)
	head := s.heads[wr.Flags&7] | headInline | slots<<headSlots | uint32(op.code)
	put32(p, 0, head)
	if op.extra {
		put32(p, wqeKey, extras(wr))
	}
	put64(p, wqeLength, uint64(length))
	if op.kind == opWrites {
		put64(p, wqeRemote, wr.RemoteAddr)
		put32(p, wqeRKey, wr.RKey)
	}
	copy(unsafe.Slice((*byte)(unsafe.Add(p, headerSlots*slotSize)), length), wr.InlineData)
	s.finish(wr, slots, length, head)
	return true
}

// extras returns the immediate data or the key to invalidate.
func extras(wr *provider.SendWR) uint32 {
	if wr.Opcode == provider.OpSendInv {
		return wr.InvalidateRKey
	}
	return wr.ImmData
}

// finish records a request of so many slots, and moves s.at on. head is the request's first word.
func (s *sendQueue) finish(wr *provider.SendWR, slots, length, head uint32) {
	at := &s.at
	e := s.entry(at.index)
	e.id = wr.ID
	e.length = length
	e.slot = at.slot
	e.slots = uint8(slots)
	e.op = uint8(wr.Opcode)
	e.signaled = head&headSignaled != 0
	e.pushed = false
	if head&headInline != 0 && s.push != nil && length <= maxPush {
		e.pushed = true
		s.pushed++
	}
	s.counts[wr.Opcode&15].Add(uint64(length))
	index := at.slot
	if !s.variable {
		index, slots = at.index, staticSlots
	}
	s.search.add(at, index, wr.Opcode, length)
	if at.index++; at.index == s.entries {
		at.index = 0
	}
	if at.slot += slots; at.slot >= s.depth {
		at.slot -= s.depth
		at.epoch ^= bellEpoch
	}
}

// buildOther is build for all other requests.
//
//go:noinline
func (s *sendQueue) buildOther(wr *provider.SendWR) bool {
	if s.check(wr) != nil {
		return false
	}
	var to *ah
	if s.search.kind&searchUD != 0 {
		var err error
		if to, err = address(wr); err != nil {
			return false // it was closed after the check
		}
	}
	op := &s.ops[wr.Opcode]
	slots := uint32(headerSlots + len(wr.SGList))
	if wr.InlineData != nil {
		slots = headerSlots + uint32(len(wr.InlineData)+slotSize-1)>>slotShift
	}
	p := s.slotAt(s.at.slot)
	wraps := s.at.slot+slots > s.depth
	if wraps {
		p = unsafe.Pointer(unsafe.SliceData(s.bounce))
		s.bounceOut(slots, func(ring, bounce []byte) { copy(bounce, ring) })
	}
	length, head := s.write(p, wr, op, to, slots)
	if wraps {
		s.bounceOut(slots, func(ring, bounce []byte) { copy(ring, bounce) })
	}
	s.finish(wr, slots, length, head)
	return true
}

// bounceOut calls f with the two pieces of a request that wraps, each in the ring and in s.bounce.
func (s *sendQueue) bounceOut(slots uint32, f func(ring, bounce []byte)) {
	first := (s.depth - s.at.slot) << slotShift
	rest := slots<<slotShift - first
	f(unsafe.Slice((*byte)(s.slotAt(s.at.slot)), first), s.bounce[:first])
	f(unsafe.Slice((*byte)(s.buf), rest), s.bounce[first:][:rest])
}

// write writes a request of so many slots to p. It returns the length of the message, and the first word. to is the
// destination of a datagram.
func (s *sendQueue) write(p unsafe.Pointer, wr *provider.SendWR, op *operation, to *ah, slots uint32) (length, head uint32) {
	head = s.heads[wr.Flags&7] | slots<<headSlots | uint32(op.code)
	body := unsafe.Add(p, headerSlots*slotSize)
	if wr.InlineData != nil {
		head |= headInline
		length = uint32(copy(unsafe.Slice((*byte)(body), len(wr.InlineData)), wr.InlineData))
	} else {
		for i := range wr.SGList {
			e := &wr.SGList[i]
			putSGE(unsafe.Add(body, i<<slotShift), e.Addr, e.Length, e.LKey)
			length += e.Length
		}
	}
	put32(p, 0, head)
	put64(p, wqeLength, uint64(length))
	if op.extra {
		put32(p, wqeKey, extras(wr))
	}
	switch op.kind {
	case opSends:
		if to != nil {
			put64(p, wqeLength, uint64(wr.RemoteQKey)<<32|uint64(length))
			put32(p, wqeQP, wr.RemoteQPN)
			put32(p, wqeAH, to.num)
		}
	case opWrites, opReads:
		put64(p, wqeRemote, wr.RemoteAddr)
		put32(p, wqeRKey, wr.RKey)
	case opAtomics:
		length = atomicSize
		put32(p, wqeKey, wr.RKey)
		put64(p, wqeLength, wr.RemoteAddr)
		if wr.Opcode == provider.OpCompareSwap {
			put64(p, wqeSwap, wr.Swap)
			put64(p, wqeCmp, wr.CompareAdd)
		} else {
			put64(p, wqeSwap, wr.CompareAdd)
		}
	}
	return length, head
}
