// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// OSHST orders stores to memory as the device sees them; DSB ST waits until they
// are there, and those to registers are on their way. 64 bytes are stored by one
// instruction, for one write on the bus.
#define OSHST $0x2
#define ST    $0xe

// func Ring(db *uint32, v uint32, reg, src unsafe.Pointer, blocks uintptr, lock *uint32)
TEXT ·Ring(SB), NOSPLIT, $0-48
	MOVD db+0(FP), R0
	MOVWU v+8(FP), R1
	MOVD reg+16(FP), R2
	MOVD src+24(FP), R3
	MOVD blocks+32(FP), R4
	MOVD lock+40(FP), R5
	DMB  OSHST
	MOVW R1, (R0)
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

// func RingWrap(db *uint32, v uint32, reg, src1 unsafe.Pointer, n1 uintptr, src2 unsafe.Pointer, n2 uintptr, lock *uint32)
TEXT ·RingWrap(SB), NOSPLIT, $0-64
	MOVD db+0(FP), R0
	MOVWU v+8(FP), R1
	MOVD reg+16(FP), R2
	MOVD src1+24(FP), R3
	MOVD n1+32(FP), R4
	DMB  OSHST
	MOVW R1, (R0)
	DSB  ST

first:
	VLD1.P 64(R3), [V0.D2, V1.D2, V2.D2, V3.D2]
	VST1.P [V0.D2, V1.D2, V2.D2, V3.D2], 64(R2)
	SUB  $1, R4
	CBNZ R4, first
	MOVD src2+40(FP), R3
	MOVD n2+48(FP), R4

second:
	VLD1.P 64(R3), [V0.D2, V1.D2, V2.D2, V3.D2]
	VST1.P [V0.D2, V1.D2, V2.D2, V3.D2], 64(R2)
	SUB  $1, R4
	CBNZ R4, second
	DSB  ST
	MOVD lock+56(FP), R5
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

// func StoreRel32(p *uint32, v uint32)
TEXT ·StoreRel32(SB), NOSPLIT, $0-12
	MOVD p+0(FP), R0
	MOVWU v+8(FP), R1
	STLRW R1, (R0)
	RET

// func Record(p *uint32, v uint32)
TEXT ·Record(SB), NOSPLIT, $0-12
	MOVD p+0(FP), R0
	MOVWU v+8(FP), R1
	DMB  OSHST
	MOVW R1, (R0)
	RET
