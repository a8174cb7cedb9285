// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// func semihostingExit(status uint64)
//
// R0 has the number of the operation, SYS_EXIT. R1 has the address of its two parameters:
// ADP_Stopped_ApplicationExit and the status.
TEXT ·semihostingExit(SB), NOSPLIT, $16-8
	MOVD $0x20026, R2
	MOVD R2, 8(RSP)
	MOVD status+0(FP), R2
	MOVD R2, 16(RSP)
	ADD  $8, RSP, R1
	MOVD $0x18, R0
	HLT  $0xf000
	RET
