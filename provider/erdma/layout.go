// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"unsafe"

	"purerdma/provider/internal/endian"
)

// blockSize is the size of a basic block of a send queue, of a slot of a receive queue, and of an
// entry of a completion queue (CQE), in bytes.
const (
	blockSize  = 32
	blockShift = 5
)

// maxBlocks is the number of blocks of the largest request.
const maxBlocks = 4

// Limits of a request (ERDMA_MAX_SEND_SGE, ERDMA_MAX_RECV_SGE, ERDMA_MAX_INLINE).
const (
	maxSendSGE = 6
	maxRecvSGE = 1
	maxInline  = maxSendSGE * sgeSize
	sgeSize    = 16
)

// Operations of requests and of completions (enum erdma_opcode).
const (
	opWrite       = 0
	opRead        = 1
	opSend        = 2
	opSendImm     = 3
	opReceive     = 4
	opRecvImm     = 5 // a WRITE with immediate data has taken a receive
	opRecvInv     = 6
	opWriteImm    = 9
	opRecvSendImm = 12
	opSendInv     = 13
	opReadInv     = 16
	opCompareSwap = 17
	opFetchAdd    = 18
)

// Bits of the first word of a request, which has 64 bits (ERDMA_SQE_HDR_...). The number of the block
// behind the request is in the lowest 16.
const (
	headSGEs      = 56 // elements, or bytes of inline data. 8 bits
	headBlocks    = 52 // blocks - 1. 3 bits
	headQP        = 32 // 20 bits
	headOp        = 27 // 5 bits
	headInline    = 1 << 25
	headFence     = 1 << 24
	headSolicited = 1 << 23
	headSignaled  = 1 << 22
)

// Offsets in the first block of a request (struct erdma_send_sqe, erdma_write_sqe,
// erdma_readreq_sqe and erdma_atomic_sqe).
const (
	sqeImm    = 8  // 32 bits immediate data, big-endian, or the key to invalidate
	sqeLength = 12 // 32 bits. SEND, WRITE and READ have it

	sqeSendSGE = 16 // first element, or inline data, of a SEND

	sqeKey    = 16 // 64 bits. Key of the memory that is written to, and the low half of the memory's address
	sqeToHigh = 24 // 32 bits. High half

	sqeOperand = 16 // 64 bits. The addend of FETCH_ADD, or the value that COMPARE_SWAP stores
	sqeCompare = 24 // 64 bits
)

// Offsets in a block of elements, which has an element in each half (struct erdma_sge). A block whose first
// half has an element has the number of the QP in its last word, unless there is a second element.
const (
	sgeAddr   = 0
	sgeLength = 8
	sgeKey    = 12
	sgeQP     = 28
)

// Offsets in a receive (struct erdma_rqe). The first word is also the doorbell. It has the number of
// the next receive in 16 bits, and the number of the QP in its upper half.
const (
	rqeHead   = 0
	rqeAddr   = 16
	rqeLength = 24
	rqeKey    = 28
)

// Offsets in a CQE (struct erdma_cqe). All fields are big-endian, except the immediate data.
const (
	cqeHead  = 0
	cqeIndex = 4  // number of the block or the receive, of which 16 bits count
	cqeQP    = 8  // number of the QP
	cqeImm   = 12 // immediate data, little-endian, or the invalidated key
	cqeSize  = 16 // bytes
)

// Bits of the first word of a CQE (ERDMA_CQE_HDR_...).
const (
	cqeOwner  = 31
	cqeOp     = 16 // 8 bits
	cqeQueue  = 8  // 8 bits. queueSend or queueRecv
	cqeStatus = 0  // 8 bits

	queueSend = 0
	queueRecv = 1
)

// Bits of the doorbell of a CQ, which has 64 bits (ERDMA_CQDB_...). The consumer index is in the
// lowest 24.
const (
	armCount     = 56 // 8 bits: counts the doorbells
	armCQ        = 32 // 24 bits
	armNext      = 1 << 31
	armSolicited = 1 << 30
	armEvents    = 28 // 2 bits: counts the events that were read
	armIndex     = 1<<24 - 1
)

func put32(p unsafe.Pointer, off uintptr, v uint32) {
	*(*uint32)(unsafe.Add(p, off)) = endian.Little32(v)
}

func put64(p unsafe.Pointer, off uintptr, v uint64) {
	*(*uint64)(unsafe.Add(p, off)) = endian.Little64(v)
}

// putSGE stores an element.
func putSGE(p unsafe.Pointer, addr uint64, length, lkey uint32) {
	put64(p, sgeAddr, addr)
	put64(p, sgeLength, uint64(lkey)<<32|uint64(length))
}

// big32 loads a big-endian number.
func big32(p unsafe.Pointer, off uintptr) uint32 {
	return endian.Big32(*(*uint32)(unsafe.Add(p, off)))
}

// little32 loads a little-endian number.
func little32(p unsafe.Pointer, off uintptr) uint32 {
	return endian.Little32(*(*uint32)(unsafe.Add(p, off)))
}
