// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// Ordinary stores are in order on amd64, and write-combined ones are not: SFENCE
// stands between the two, and flushes the latter. No store may be a locked one.

// COPY64 copies 64 bytes from (SI) to (DI), and moves both on.
#define COPY64 \
	MOVQ 0(SI), R8   \
	MOVQ 8(SI), R9   \
	MOVQ 16(SI), R10 \
	MOVQ 24(SI), R11 \
	MOVQ R8, 0(DI)   \
	MOVQ R9, 8(DI)   \
	MOVQ R10, 16(DI) \
	MOVQ R11, 24(DI) \
	MOVQ 32(SI), R8  \
	MOVQ 40(SI), R9  \
	MOVQ 48(SI), R10 \
	MOVQ 56(SI), R11 \
	MOVQ R8, 32(DI)  \
	MOVQ R9, 40(DI)  \
	MOVQ R10, 48(DI) \
	MOVQ R11, 56(DI) \
	ADDQ $64, SI     \
	ADDQ $64, DI

// func Ring(db *uint32, v uint32, reg, src unsafe.Pointer, blocks uintptr, lock *uint32)
TEXT ·Ring(SB), NOSPLIT, $0-48
	MOVQ db+0(FP), AX
	MOVL v+8(FP), CX
	MOVQ reg+16(FP), DI
	MOVQ src+24(FP), SI
	MOVQ blocks+32(FP), DX
	MOVQ lock+40(FP), BX
	MOVL CX, (AX)
	SFENCE
	TESTQ DX, DX
	JZ   word

copy:
	COPY64
	DECQ DX
	JNZ  copy
	SFENCE
	MOVL $0, (BX)
	RET

word:
	MOVQ (SI), R8
	MOVQ R8, (DI)
	SFENCE
	MOVL $0, (BX)
	RET

// func RingWrap(db *uint32, v uint32, reg, src1 unsafe.Pointer, n1 uintptr, src2 unsafe.Pointer, n2 uintptr, lock *uint32)
TEXT ·RingWrap(SB), NOSPLIT, $0-64
	MOVQ db+0(FP), AX
	MOVL v+8(FP), CX
	MOVQ reg+16(FP), DI
	MOVQ src1+24(FP), SI
	MOVQ n1+32(FP), DX
	MOVL CX, (AX)
	SFENCE

first:
	COPY64
	DECQ DX
	JNZ  first
	MOVQ src2+40(FP), SI
	MOVQ n2+48(FP), DX

second:
	COPY64
	DECQ DX
	JNZ  second
	SFENCE
	MOVQ lock+56(FP), BX
	MOVL $0, (BX)
	RET

// func Arm(db *uint32, v uint32, reg unsafe.Pointer, w uint64)
TEXT ·Arm(SB), NOSPLIT, $0-32
	MOVQ db+0(FP), AX
	MOVL v+8(FP), CX
	MOVQ reg+16(FP), DI
	MOVQ w+24(FP), R8
	MOVL CX, (AX)
	SFENCE
	MOVQ R8, (DI)
	SFENCE
	RET

// func StoreRel32(p *uint32, v uint32)
TEXT ·StoreRel32(SB), NOSPLIT, $0-12
	MOVQ p+0(FP), AX
	MOVL v+8(FP), CX
	MOVL CX, (AX)
	RET

// func Record(p *uint32, v uint32)
TEXT ·Record(SB), NOSPLIT, $0-12
	MOVQ p+0(FP), AX
	MOVL v+8(FP), CX
	MOVL CX, (AX)
	RET
