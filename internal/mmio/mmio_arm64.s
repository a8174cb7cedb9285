// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// OSHST orders stores to memory as the device sees them; DSB ST waits until they
// are there, and those to registers are on their way. 64 bytes are stored by one
// instruction, for one write on the bus.
#define OSHST $0x2
#define ST    $0xe

// TURN sets R2 to the half of the register R7 whose turn it is, and moves on to the
// other.
#define TURN \
	MOVD Register_Base(R7), R2   \
	MOVD Register_Offset(R7), R8 \
	MOVD Register_Size(R7), R9   \
	ADD  R8, R2                  \
	EOR  R9, R8                  \
	MOVD R8, Register_Offset(R7)

// func Ring(b *Bell, v uint32, src unsafe.Pointer, blocks uintptr)
TEXT ·Ring(SB), NOSPLIT, $0-32
	MOVD b+0(FP), R0
	MOVWU v+8(FP), R1
	MOVD src+16(FP), R3
	MOVD blocks+24(FP), R4
	MOVD Bell_Record(R0), R6
	MOVD Bell_Lock(R0), R5
	MOVD Bell_Register(R0), R7
	TURN
	DMB  OSHST
	MOVW R1, (R6)
	DSB  ST
	CBZ  R4, word

copy:
	VLD1.P 64(R3), [V0.D2, V1.D2, V2.D2, V3.D2]
	VST1.P [V0.D2, V1.D2, V2.D2, V3.D2], 64(R2)
	SUB  $1, R4
	CBNZ R4, copy
	DSB  ST
	STLRW ZR, (R5)
	RET

word:
	MOVD (R3), R6
	MOVD R6, (R2)
	DSB  ST
	STLRW ZR, (R5)
	RET

// func RingWrap(b *Bell, v uint32, src1 unsafe.Pointer, n1 uintptr, src2 unsafe.Pointer, n2 uintptr)
TEXT ·RingWrap(SB), NOSPLIT, $0-48
	MOVD b+0(FP), R0
	MOVWU v+8(FP), R1
	MOVD src1+16(FP), R3
	MOVD n1+24(FP), R4
	MOVD Bell_Record(R0), R6
	MOVD Bell_Lock(R0), R5
	MOVD Bell_Register(R0), R7
	TURN
	DMB  OSHST
	MOVW R1, (R6)
	DSB  ST

first:
	VLD1.P 64(R3), [V0.D2, V1.D2, V2.D2, V3.D2]
	VST1.P [V0.D2, V1.D2, V2.D2, V3.D2], 64(R2)
	SUB  $1, R4
	CBNZ R4, first
	MOVD src2+32(FP), R3
	MOVD n2+40(FP), R4

second:
	VLD1.P 64(R3), [V0.D2, V1.D2, V2.D2, V3.D2]
	VST1.P [V0.D2, V1.D2, V2.D2, V3.D2], 64(R2)
	SUB  $1, R4
	CBNZ R4, second
	DSB  ST
	STLRW ZR, (R5)
	RET

// func Arm(db *uint32, v uint32, reg unsafe.Pointer, w uint64)
TEXT ·Arm(SB), NOSPLIT, $0-32
	MOVD db+0(FP), R0
	MOVWU v+8(FP), R1
	MOVD reg+16(FP), R2
	MOVD w+24(FP), R3
	DMB  OSHST
	MOVW R1, (R0)
	DSB  ST
	MOVD R3, (R2)
	DSB  ST
	RET

// func Doorbell(record *uint64, v uint64, reg unsafe.Pointer, lock *uint32)
TEXT ·Doorbell(SB), NOSPLIT, $0-32
	MOVD record+0(FP), R0
	MOVD v+8(FP), R1
	MOVD reg+16(FP), R2
	MOVD lock+24(FP), R3
	DMB  OSHST
	MOVD R1, (R0)
	DMB  OSHST
	MOVD R1, (R2)
	STLRW ZR, (R3)
	RET

// func Record(p *uint32, v uint32)
TEXT ·Record(SB), NOSPLIT, $0-12
	MOVD p+0(FP), R0
	MOVWU v+8(FP), R1
	DMB  OSHST
	MOVW R1, (R0)
	RET

// func Copy(reg, src unsafe.Pointer, n uintptr)
TEXT ·Copy(SB), NOSPLIT, $0-24
	MOVD reg+0(FP), R0
	MOVD src+8(FP), R1
	MOVD n+16(FP), R2
	DSB  ST

next:
	MOVD (R1), R3
	MOVD 8(R1), R4
	MOVD R3, (R0)
	MOVD R4, 8(R0)
	ADD  $16, R1
	ADD  $16, R0
	SUBS $1, R2
	BNE  next
	DSB  ST
	RET
