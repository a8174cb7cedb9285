// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// Ordinary stores are in order on amd64, and write-combined ones are not: SFENCE
// stands between the two, and flushes the latter. No store may be a locked one.

// TURN sets DI to the half of the register BX whose turn it is, and moves on to the
// other.
#define TURN \
	MOVQ Register_Base(BX), DI   \
	MOVQ Register_Offset(BX), R9 \
	ADDQ R9, DI                  \
	XORQ Register_Size(BX), R9   \
	MOVQ R9, Register_Offset(BX)

// COPY64 copies 64 bytes from (SI) to (DI), and moves both on. A block that was just
// built by shorter stores is loaded when those have left the store buffer; the SFENCE
// before has the copy's stores wait for that anyway. Half as many stores as with 8
// bytes are worth it.
#define COPY64 \
	MOVUPS 0(SI), X0  \
	MOVUPS 16(SI), X1 \
	MOVUPS 32(SI), X2 \
	MOVUPS 48(SI), X3 \
	MOVUPS X0, 0(DI)  \
	MOVUPS X1, 16(DI) \
	MOVUPS X2, 32(DI) \
	MOVUPS X3, 48(DI) \
	ADDQ $64, SI      \
	ADDQ $64, DI

// func Ring(b *Bell, v uint32, src unsafe.Pointer, blocks uintptr)
TEXT ·Ring(SB), NOSPLIT, $0-32
	MOVQ b+0(FP), AX
	MOVL v+8(FP), CX
	MOVQ src+16(FP), SI
	MOVQ blocks+24(FP), DX
	MOVQ Bell_Record(AX), R8
	MOVQ Bell_Register(AX), BX
	MOVQ Bell_Lock(AX), AX
	TURN
	MOVL CX, (R8)
	SFENCE
	TESTQ DX, DX
	JZ   word

copy:
	COPY64
	DECQ DX
	JNZ  copy
	SFENCE
	MOVL $0, (AX)
	RET

word:
	MOVQ (SI), R8
	MOVQ R8, (DI)
	SFENCE
	MOVL $0, (AX)
	RET

// func RingWrap(b *Bell, v uint32, src1 unsafe.Pointer, n1 uintptr, src2 unsafe.Pointer, n2 uintptr)
TEXT ·RingWrap(SB), NOSPLIT, $0-48
	MOVQ b+0(FP), AX
	MOVL v+8(FP), CX
	MOVQ src1+16(FP), SI
	MOVQ n1+24(FP), DX
	MOVQ Bell_Record(AX), R8
	MOVQ Bell_Register(AX), BX
	MOVQ Bell_Lock(AX), AX
	TURN
	MOVL CX, (R8)
	SFENCE

first:
	COPY64
	DECQ DX
	JNZ  first
	MOVQ src2+32(FP), SI
	MOVQ n2+40(FP), DX

second:
	COPY64
	DECQ DX
	JNZ  second
	SFENCE
	MOVL $0, (AX)
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

// No fence: the register is uncached memory, to which stores stay in order with the others.
//
// func Doorbell(record *uint64, v uint64, reg unsafe.Pointer, lock *uint32)
TEXT ·Doorbell(SB), NOSPLIT, $0-32
	MOVQ record+0(FP), AX
	MOVQ v+8(FP), CX
	MOVQ reg+16(FP), DI
	MOVQ lock+24(FP), R8
	MOVQ CX, (AX)
	MOVQ CX, (DI)
	MOVL $0, (R8)
	RET

// func Record(p *uint32, v uint32)
TEXT ·Record(SB), NOSPLIT, $0-12
	MOVQ p+0(FP), AX
	MOVL v+8(FP), CX
	MOVL CX, (AX)
	RET

// func Copy(reg, src unsafe.Pointer, n uintptr)
TEXT ·Copy(SB), NOSPLIT, $0-24
	MOVQ reg+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), DX
	SFENCE

next:
	MOVQ 0(SI), R8
	MOVQ 8(SI), R9
	MOVQ R8, 0(DI)
	MOVQ R9, 8(DI)
	ADDQ $16, SI
	ADDQ $16, DI
	DECQ DX
	JNZ  next
	SFENCE
	RET
