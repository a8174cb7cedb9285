// SPDX-License-Identifier: Apache-2.0

package prm

// Opcodes of the commands that create, change and destroy queues, keys and their parents,
// MLX5_CMD_OP_... of Linux.
const (
	OpQuerySpecialContexts = 0x203

	OpCreateMkey  = 0x200
	OpQueryMkey   = 0x201
	OpDestroyMkey = 0x202

	OpCreateEQ  = 0x301
	OpDestroyEQ = 0x302
	OpQueryEQ   = 0x303

	OpCreateCQ  = 0x400
	OpDestroyCQ = 0x401
	OpQueryCQ   = 0x402
	OpModifyCQ  = 0x403

	OpCreateQP  = 0x500
	OpDestroyQP = 0x501
	OpRst2Init  = 0x502
	OpInit2RTR  = 0x503
	OpRTR2RTS   = 0x504
	OpRTS2RTS   = 0x505
	OpSQErr2RTS = 0x506
	Op2Err      = 0x507
	Op2Rst      = 0x50a
	OpQueryQP   = 0x50b
	OpSQDRTS    = 0x50c
	OpInit2Init = 0x50e

	OpCreateXRCSRQ  = 0x705
	OpDestroyXRCSRQ = 0x706
	OpQueryXRCSRQ   = 0x707
	OpArmXRCSRQ     = 0x708

	OpCreateDCT  = 0x710
	OpDestroyDCT = 0x711
	OpDrainDCT   = 0x712
	OpQueryDCT   = 0x713

	OpAllocPD     = 0x800
	OpDeallocPD   = 0x801
	OpAllocUAR    = 0x802
	OpDeallocUAR  = 0x803
	OpAttachMCG   = 0x806
	OpDetachMCG   = 0x807
	OpAllocXRCD   = 0x80e
	OpDeallocXRCD = 0x80f

	OpCreateRMP  = 0x90c
	OpModifyRMP  = 0x90d
	OpDestroyRMP = 0x90e
	OpQueryRMP   = 0x90f
)
