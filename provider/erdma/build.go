// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"fmt"
	"math"
	"math/bits"
	"syscall"
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/internal/spin"
)

// build writes one request into the ring from block pi on, as the n-th after head, and returns the
// number of its blocks. If the request cannot be posted, it returns 0, and refusal finds the reason.
// The caller holds the lock.
//
// It builds SENDs and WRITEs of one element. buildInline and buildOther build the other requests.
func (s *sendQueue) build(wr *provider.SendWR, pi, n uint32) uint32 {
	if wr.InlineData != nil {
		return s.buildInline(wr, pi, n)
	}
	sg := wr.SGList
	op := &operations[wr.Opcode&15]
	if wr.Opcode > 15 || op.kind-1 >= opReads-1 || len(sg) != 1 {
		return s.buildOther(wr, pi, n)
	}
	// The rest is common and finish, which are too long to be inlined.
	b, length := s.block(pi), uint64(sg[0].Length)
	v := length << 32
	if op.extra {
		v |= uint64(op.extras(wr))
	}
	put64(b, sqeImm, v)
	blocks := uint32(1)
	if op.kind == opSends {
		putSGE(unsafe.Add(b, sqeSendSGE), sg[0].Addr, uint32(length), sg[0].LKey)
	} else {
		put64(b, sqeKey, wr.RemoteAddr<<32|uint64(wr.RKey))
		put32(b, sqeToHigh, uint32(wr.RemoteAddr>>32))
		e := s.block(pi + 1)
		putSGE(e, sg[0].Addr, uint32(length), sg[0].LKey)
		put32(e, sgeQP, uint32(s.num>>headQP))
		blocks = 2
	}
	put64(b, 0, s.heads[wr.Flags&7]|op.one|uint64(uint16(pi+blocks)))
	s.tally(wr.Opcode, length)
	s.note(wr.ID, pi, n, blocks)
	return blocks
}

// buildInline is build for SENDs and WRITEs with inline data.
func (s *sendQueue) buildInline(wr *provider.SendWR, pi, n uint32) uint32 {
	data := wr.InlineData
	op := &operations[wr.Opcode&15]
	if wr.Opcode > 15 || op.kind-1 >= opReads-1 || len(data) > maxInline {
		return 0
	}
	b := s.block(pi)
	at := uint32(sqeSendSGE) // bytes from the first block
	if op.kind == opWrites {
		at = blockSize
	}
	length := uint32(len(data))
	// The ring may end in the data.
	dst := uintptr(pi&s.mask)<<blockShift + uintptr(at)
	size := uintptr(s.mask+1) << blockShift
	if room := size - dst; dst < size && uintptr(length) <= room {
		copy(unsafe.Slice((*byte)(unsafe.Add(s.buf, dst)), length), data)
	} else {
		s.wrapInline(dst, size, data)
	}
	blocks := (at + length + blockSize - 1) >> blockShift
	s.common(b, wr, op, length)
	s.finish(b, wr, op, pi, blocks, uint64(length)<<headSGEs|headInline)
	s.tally(wr.Opcode, uint64(length))
	s.note(wr.ID, pi, n, blocks)
	return blocks
}

// wrapInline copies inline data to an offset of the ring, which ends before the end of the data.
//
//go:noinline
func (s *sendQueue) wrapInline(dst, size uintptr, data []byte) {
	if dst < size {
		n := copy(unsafe.Slice((*byte)(unsafe.Add(s.buf, dst)), size-dst), data)
		dst, data = size, data[n:]
	}
	copy(unsafe.Slice((*byte)(unsafe.Add(s.buf, dst-size)), len(data)), data)
}

// extras returns the immediate data or the key to invalidate.
func (o *operation) extras(wr *provider.SendWR) uint32 {
	if wr.Opcode == provider.OpSendInv {
		return wr.InvalidateRKey
	}
	return bits.ReverseBytes32(wr.ImmData)
}

// common writes the parts of the first block that SENDs and WRITEs have in common, besides the first word.
func (s *sendQueue) common(b unsafe.Pointer, wr *provider.SendWR, op *operation, length uint32) {
	v := uint64(length) << 32
	if op.extra {
		v |= uint64(op.extras(wr))
	}
	put64(b, sqeImm, v)
	if op.kind == opWrites {
		put64(b, sqeKey, wr.RemoteAddr<<32|uint64(wr.RKey))
		put32(b, sqeToHigh, uint32(wr.RemoteAddr>>32))
	}
}

// finish writes the first word of a request of so many blocks. more are more bits of it.
func (s *sendQueue) finish(b unsafe.Pointer, wr *provider.SendWR, op *operation, pi, blocks uint32, more uint64) {
	put64(b, 0, s.heads[wr.Flags&7]|uint64(op.code)<<headOp|uint64(blocks-1)<<headBlocks|uint64(uint16(pi+blocks))|more)
}

// note stores the data that the completion of a request needs.
func (s *sendQueue) note(id uint64, pi, n, blocks uint32) {
	e := s.entry(pi)
	e.id = id
	e.blocks = blocks
	spin.StoreRelease(&e.head, s.head+n)
}

// buildOther is build for all other requests.
//
//go:noinline
func (s *sendQueue) buildOther(wr *provider.SendWR, pi, n uint32) uint32 {
	if s.check(wr) != nil {
		return 0
	}
	op := &operations[wr.Opcode]
	b := s.block(pi)
	var blocks uint32
	var more, length uint64
	switch op.kind {
	case opSends, opWrites:
		at := pi<<blockShift + sqeSendSGE // bytes from the start of the queue
		if op.kind == opWrites {
			at = (pi + 1) << blockShift
		}
		more = uint64(len(wr.SGList)) << headSGEs
		at, length = s.gather(at, wr.SGList)
		blocks = (at - pi<<blockShift + blockSize - 1) >> blockShift
		s.common(b, wr, op, uint32(length))
	case opReads:
		e := &wr.SGList[0]
		blocks, length = 2, uint64(e.Length)
		put32(b, sqeLength, e.Length)
		put64(b, sqeKey, e.Addr<<32|uint64(e.LKey))
		put32(b, sqeToHigh, uint32(e.Addr>>32))
		putSGE(s.block(pi+1), wr.RemoteAddr, e.Length, wr.RKey)
	case opAtomics:
		e := &wr.SGList[0]
		blocks, length = 2, atomicSize
		if wr.Opcode == provider.OpCompareSwap {
			put64(b, sqeOperand, wr.Swap)
			put64(b, sqeCompare, wr.CompareAdd)
		} else {
			put64(b, sqeOperand, wr.CompareAdd)
		}
		r := s.block(pi + 1)
		put64(r, sgeAddr, wr.RemoteAddr)
		put32(r, sgeKey, wr.RKey)
		putSGE(unsafe.Add(r, sgeSize), e.Addr, e.Length, e.LKey)
	}
	s.finish(b, wr, op, pi, blocks, more)
	s.tally(wr.Opcode, length)
	s.note(wr.ID, pi, n, blocks)
	return blocks
}

// atomicSize is the number of bytes of an atomic.
const atomicSize = 8

// gather stores elements from a byte of the queue on, the start or the middle of a block. It returns
// the byte behind them and the length of the message.
func (s *sendQueue) gather(at uint32, sg []provider.SGE) (uint32, uint64) {
	length := uint64(0)
	for i := range sg {
		b := s.block(at >> blockShift)
		putSGE(unsafe.Add(b, at%blockSize), sg[i].Addr, sg[i].Length, sg[i].LKey)
		if at%blockSize == 0 {
			put32(b, sgeQP, uint32(s.num>>headQP))
		}
		length += uint64(sg[i].Length)
		at += sgeSize
	}
	return at, length
}

// maxMessage is the longest message, because a request has its length in 32 bits.
const maxMessage = math.MaxUint32

// check returns the reason why a request cannot be posted, or nil.
func (s *sendQueue) check(wr *provider.SendWR) error {
	if wr.Opcode == 0 {
		return provider.ErrNoOpcode
	}
	if wr.Opcode > 15 || operations[wr.Opcode].kind == opNone || operations[wr.Opcode].kind == opAtomics && !s.atomics {
		return fmt.Errorf("%v on a QP of erdma: %w", wr.Opcode, syscall.EOPNOTSUPP)
	}
	kind := operations[wr.Opcode].kind
	if kind == opReads || kind == opAtomics {
		return checkOne(wr, kind)
	}
	if wr.InlineData != nil {
		if n := len(wr.InlineData); n > maxInline {
			return fmt.Errorf("%d bytes of inline data, %d fit: %w", n, maxInline, syscall.EINVAL)
		}
		return nil
	}
	if n := len(wr.SGList); n > maxSendSGE {
		return fmt.Errorf("%d scatter/gather elements, %d fit: %w", n, maxSendSGE, syscall.EINVAL)
	}
	var length uint64
	for i := range wr.SGList {
		length += uint64(wr.SGList[i].Length)
	}
	if length > maxMessage {
		return fmt.Errorf("message of %d bytes: %w", length, syscall.EMSGSIZE)
	}
	return nil
}

// checkOne is check for operations that fill one element.
func checkOne(wr *provider.SendWR, kind opKind) error {
	switch {
	case wr.InlineData != nil:
		return fmt.Errorf("inline data in a %v: %w", wr.Opcode, syscall.EINVAL)
	case len(wr.SGList) != 1:
		return fmt.Errorf("%d scatter/gather elements in a %v, want one: %w", len(wr.SGList), wr.Opcode, syscall.EINVAL)
	case kind == opReads:
		return nil
	case wr.SGList[0].Length < atomicSize:
		return fmt.Errorf("an atomic fills %d bytes, the element has %d: %w", atomicSize, wr.SGList[0].Length, syscall.EINVAL)
	case wr.RemoteAddr%atomicSize != 0:
		return fmt.Errorf("atomic at address %#x, no multiple of %d: %w", wr.RemoteAddr, atomicSize, syscall.EINVAL)
	}
	return nil
}

// refusal returns the reason why build did not build a request.
//
//go:noinline
func (s *sendQueue) refusal(wr *provider.SendWR) error { return s.check(wr) }
