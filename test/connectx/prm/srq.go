// SPDX-License-Identifier: Apache-2.0

package prm

// WQ is the description of a work queue in RMPs, RQs and SQs.
var WQ = struct {
	Type, Signature, EndPadding, CDSlave, PageOffset, LWM, PD, UARPage, DBRAddr, HWCounter, SWCounter,
	LogStride, LogPageSize, LogSize, DBRUMEMValid, WQUMEMValid, LogStrides, TwoByteShift, LogStrideSize Field
	PAS Tail
}{
	Type:          bits(0x00, 31, 28),
	Signature:     bit(0x00, 27),
	EndPadding:    bits(0x00, 26, 25),
	CDSlave:       bit(0x00, 24),
	PageOffset:    bits(0x04, 20, 16), // in 64ths of a page
	LWM:           bits(0x04, 15, 0),
	PD:            bits(0x08, 23, 0),
	UARPage:       bits(0x0c, 23, 0),
	DBRAddr:       qword(0x10),
	HWCounter:     dword(0x18),
	SWCounter:     dword(0x1c),
	LogStride:     bits(0x20, 19, 16),
	LogPageSize:   bits(0x20, 12, 8), // above 12
	LogSize:       bits(0x20, 4, 0),
	DBRUMEMValid:  bit(0x24, 31),
	WQUMEMValid:   bit(0x24, 30),
	LogStrides:    bits(0x24, 11, 8),
	TwoByteShift:  bit(0x24, 7),
	LogStrideSize: bits(0x24, 2, 0),
	PAS:           0xc0,
}

// Values of WQ.Type.
const (
	WQLinkedList    = 0
	WQCyclic        = 1
	WQLinkedStrides = 2
	WQCyclicStrides = 3
)

// RMPC is the context of a receive memory pool, which implements a shared receive queue.
var RMPC = struct {
	State, BasicCyclic Field
	WQ                 Area
}{
	State:       bits(0x00, 23, 20),
	BasicCyclic: bit(0x04, 31),
	WQ:          area(0x30, 192),
}

// RMPIn is the input of CREATE_RMP and MODIFY_RMP. QUERY_RMP's output has the context
// at the same place.
var RMPIn = struct {
	Opcode, UID, OpMod Field
	RMPState, RMPN     Field // of MODIFY_RMP
	Bitmask            Field
	Context            Area
	PAS                Tail
}{
	Opcode: HeaderIn.Opcode, UID: HeaderIn.UID, OpMod: HeaderIn.OpMod,
	RMPState: bits(0x08, 31, 28), RMPN: bits(0x08, 23, 0),
	Bitmask: qword(0x10),
	Context: area(0x20, 240),
	PAS:     0x110,
}

// Values of RMPC.State, and the bit of RMPIn.Bitmask for the limit.
const (
	RMPReady     = 1
	RMPErr       = 3
	ModifyRMPLWM = 1 << 0
)

// XRCSRQC is the context of a shared receive queue of XRC.
var XRCSRQC = struct {
	State, LogSize, Signature, ContSRQ, ReservedLKey, BasicCyclic, LogStride, XRCD,
	PageOffset, DBRUMEMValid, CQN, IndexIsNumber, LogPageSize, UserIndex, PD, LWM, WQECount, DBRHigh, DBRLow Field
}{
	State:         bits(0x00, 31, 28),
	LogSize:       bits(0x00, 27, 24),
	Signature:     bit(0x04, 31),
	ContSRQ:       bit(0x04, 30),
	ReservedLKey:  bit(0x04, 28),
	BasicCyclic:   bit(0x04, 27),
	LogStride:     bits(0x04, 26, 24), // above 4
	XRCD:          bits(0x04, 23, 0),
	PageOffset:    bits(0x08, 31, 26), // in 64ths of a page
	DBRUMEMValid:  bit(0x08, 24),
	CQN:           bits(0x08, 23, 0),
	IndexIsNumber: bit(0x10, 31),
	LogPageSize:   bits(0x10, 29, 24), // above 12
	UserIndex:     bits(0x10, 23, 0),
	PD:            bits(0x18, 23, 0),
	LWM:           bits(0x1c, 31, 16),
	WQECount:      bits(0x1c, 15, 0),
	DBRHigh:       dword(0x28),
	DBRLow:        bits(0x2c, 31, 2),
}

// XRCSRQIn is the input of CREATE_XRC_SRQ. QUERY_XRC_SRQ's output has the context and
// the pages at the same places.
var XRCSRQIn = struct {
	Opcode, UID, OpMod Field
	Context            Area
	PAS                Tail
}{
	Opcode: HeaderIn.Opcode, UID: HeaderIn.UID, OpMod: HeaderIn.OpMod,
	Context: area(0x10, 64),
	PAS:     0x110,
}

// ArmXRCSRQIn is the input of ARM_XRC_SRQ. LWM is the limit.
var ArmXRCSRQIn = struct{ Opcode, UID, OpMod, SRQN, LWM Field }{
	Opcode: HeaderIn.Opcode, UID: HeaderIn.UID, OpMod: HeaderIn.OpMod,
	SRQN: bits(0x08, 23, 0), LWM: bits(0x0c, 15, 0),
}

// XRCSRQArm is ArmXRCSRQIn.OpMod: set the limit.
const XRCSRQArm = 1
