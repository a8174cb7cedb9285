// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"math/bits"
	"unsafe"

	"purerdma/provider/internal/endian"
)

// slotSize is the size of a slot in bytes. A request has a header of two slots, and then a slot for each element or
// for 16 bytes of inline data.
const (
	slotSize    = 16
	slotShift   = 4
	headerSlots = 2
)

// Sizes of requests of fixed size, of receives of an SRQ, and of a completion, in bytes.
const (
	staticSGE   = 6
	staticSlots = headerSlots + staticSGE

	srqSGE  = 6
	srqSize = (headerSlots + srqSGE) * slotSize

	cqeSize  = 32
	cqeShift = 5
)

// Operations of requests (enum bnxt_re_wr_opcode, SQ_BASE_WQE_TYPE_...).
const (
	opSend        = 0x00
	opSendImm     = 0x01
	opSendInv     = 0x02
	opWrite       = 0x04
	opWriteImm    = 0x05
	opRead        = 0x06
	opCompareSwap = 0x08
	opFetchAdd    = 0x0b
	opReceive     = 0x80
)

// Bits of the first word of a request (enum bnxt_re_wr_flags). The operation is in the lowest 8 bits.
const (
	headSignaled  = 0x01 << 8
	headFence     = 0x04 << 8
	headSolicited = 0x08 << 8
	headInline    = 0x10 << 8
	headSlots     = 16 // slots of the request, 8 bits
)

// Offsets in the header of a request (struct bnxt_re_bsqe and the struct behind it).
const (
	wqeKey    = 4  // 32 bits. Immediate data, a key to invalidate, or the key of an atomic
	wqeLength = 8  // 64 bits. Length, and the key of the queue of a datagram in the upper half. Address of an atomic
	wqeRemote = 16 // 64 bits. Address of a READ and WRITE
	wqeRKey   = 24 // 32 bits
	wqeSwap   = 16 // 64 bits. Operand of an atomic
	wqeCmp    = 24 // 64 bits
	wqeQP     = 16 // 32 bits. Destination of a datagram
	wqeAH     = 20 // 32 bits
)

// Offsets in an element (struct bnxt_re_sge).
const (
	sgeAddr   = 0
	sgeKey    = 8
	sgeLength = 12
)

// rqeIndex is the offset of the index of a receive (struct bnxt_re_brqe).
const rqeIndex = 8

// Offsets in a completion (struct bnxt_re_req_cqe, bnxt_re_rc_cqe, bnxt_re_ud_cqe and bnxt_re_bcqe).
const (
	cqeSendQP  = 0  // 64 bits. The handle of the QP in a completion of a request, and at the end of a QP
	cqeCons    = 8  // 16 bits. The first request that has not completed
	cqeLength  = 0  // 32 bits. Length of the message in a completion of a receive
	cqeImm     = 4  // 32 bits. Immediate data or the invalidated key
	cqeRecvQP  = 8  // 64 bits. The handle of the QP
	cqeSource  = 22 // 16 bits. The lower part of the sender's QP
	cqeFlags   = 24 // 32 bits, see below
	cqeIndex   = 28 // 32 bits. Index of the receive in 20 bits, and upper part of the sender's QP
	indexMask  = 1<<20 - 1
	sourceHigh = 24
	udLength   = 1<<14 - 1 // bits of the length of a datagram
)

// Bits of cqeFlags.
const (
	flagPhase  = 1 << 0
	flagType   = 1 // 4 bits
	flagToggle = 5 // 2 bits, at the end of a queue that was resized
	flagStatus = 8 // 8 bits
	flagImm    = 1 << 17
	flagInv    = 1 << 18
	flagWrite  = 1 << 19
	flagIPv    = 20 // 2 bits. Version of IP of a datagram

	typeSend   = 0x0
	typeRecvRC = 0x1
	typeRecvUD = 0x2
	typeEnd    = 0xe // terminal: the QP has stopped
	typeCutoff = 0xf // end of a queue that was resized
)

// Bits of a doorbell. The index is in the lowest 24.
const (
	bellEpoch  = 1 << 24
	bellToggle = 25 // 2 bits
	bellPage   = 24 // 8 bits of a push page's number
	bellValid  = 1 << (32 + 26)
	bellNum    = 32 // 20 bits
	bellPageHi = 32 + 12
	bellType   = 32 + 28

	numMask = 1<<20 - 1

	bellSQ           = 0x0
	bellRQ           = 0x1
	bellSRQ          = 0x2
	bellSRQArm       = 0x3
	bellCQ           = 0x4
	bellArmSolicited = 0x5
	bellArmAll       = 0x6
	bellCutoff       = 0x9
	bellPushStart    = 0xc
	bellPushEnd      = 0xd
)

// bell returns a doorbell without its index.
func bell(kind uint64, num uint32) uint64 {
	return kind<<bellType | bellValid | uint64(num&numMask)<<bellNum
}

func put16(p unsafe.Pointer, off uintptr, v uint16) {
	b := unsafe.Slice((*byte)(unsafe.Add(p, off)), 2)
	b[0], b[1] = byte(v), byte(v>>8)
}

func put32(p unsafe.Pointer, off uintptr, v uint32) {
	*(*uint32)(unsafe.Add(p, off)) = endian.Little32(v)
}

func put64(p unsafe.Pointer, off uintptr, v uint64) {
	*(*uint64)(unsafe.Add(p, off)) = endian.Little64(v)
}

func load32(p unsafe.Pointer, off uintptr) uint32 {
	return endian.Little32(*(*uint32)(unsafe.Add(p, off)))
}

func load64(p unsafe.Pointer, off uintptr) uint64 {
	return endian.Little64(*(*uint64)(unsafe.Add(p, off)))
}

// putSGE stores an element.
func putSGE(p unsafe.Pointer, addr uint64, length, lkey uint32) {
	put64(p, sgeAddr, addr)
	put64(p, sgeKey, uint64(length)<<32|uint64(lkey))
}

// roundUp returns the smallest power of two that is at least n, which is positive.
func roundUp(n int) int { return 1 << bits.Len(uint(n-1)) }

// alignUp rounds n up to a multiple of a power of two.
func alignUp(n, to int) int { return (n + to - 1) &^ (to - 1) }
