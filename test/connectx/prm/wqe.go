// SPDX-License-Identifier: Apache-2.0

package prm

// WQEBB is the unit of a send queue, in bytes. Octoword is the unit of a work request.
const (
	WQEBB    = 64
	Octoword = 16
	// MaxWQE is the longest work request, because DS has 6 bits.
	MaxWQE = 63 * Octoword
)

// Ctrl is the control segment, the first of a send request.
var Ctrl = struct {
	OpMod, Index, Opcode, QPN, DS, Signature, Stream, Fence, Completion, Solicited, Imm Field
}{
	OpMod:      bits(0x00, 31, 24),
	Index:      bits(0x00, 23, 8), // of its first WQEBB
	Opcode:     bits(0x00, 7, 0),
	QPN:        bits(0x04, 31, 8),
	DS:         bits(0x04, 5, 0), // octowords of the request
	Signature:  bits(0x08, 31, 24),
	Stream:     bits(0x08, 23, 8),
	Fence:      bits(0x08, 7, 5),
	Completion: bits(0x08, 3, 2),
	Solicited:  bit(0x08, 1),
	Imm:        dword(0x0c),
}

// Operations of a send queue: MLX5_OPCODE_... of Linux.
const (
	WQENop      = 0x00
	WQESendInv  = 0x01
	WQEWrite    = 0x08
	WQEWriteImm = 0x09
	WQESend     = 0x0a
	WQESendImm  = 0x0b
	WQELSO      = 0x0e
	WQERead     = 0x10
	WQECompare  = 0x11
	WQEFetchAdd = 0x12
	WQEUMR      = 0x25
)

// Values of Ctrl.Fence and Ctrl.Completion.
const (
	FenceNone         = 0
	FenceInitiator    = 1 // before reads of this side's memory
	FenceRead         = 2
	FenceStrong       = 3
	FenceSmallAndRead = 4

	CompletionOnError = 0
	CompletionAlways  = 2
	CompletionEvent   = 3
)

// Raddr is the remote address segment.
var Raddr = struct{ Address, RKey Field }{Address: qword(0x00), RKey: dword(0x08)}

// AtomicSeg is the segment of an atomic.
var AtomicSeg = struct{ SwapAdd, Compare Field }{SwapAdd: qword(0x00), Compare: qword(0x08)}

// XRCSeg is the segment with the shared receive queue of an XRC request.
var XRCSeg = struct{ SRQN Field }{SRQN: bits(0x00, 23, 0)}

// AV is the address vector of a datagram, and of DC.
var AV = struct {
	QKey, QKeyHigh, DCKey, Extended, DestQPN, StatRate, SL, ForceLoopback, RLID, RMACHigh, RMACLow, TClass, HopLimit, GRH, SourceIndex, FlowLabel Field
	RGID                                                                                                                                          Area
}{
	QKey:          dword(0x00),
	QKeyHigh:      bit(0x00, 31), // selects the QP's own key
	DCKey:         qword(0x00),
	Extended:      bit(0x08, 31),
	DestQPN:       bits(0x08, 23, 0),
	StatRate:      bits(0x0c, 31, 28),
	SL:            bits(0x0c, 27, 24),
	ForceLoopback: bit(0x0c, 23),
	RLID:          bits(0x0c, 15, 0),
	RMACHigh:      dword(0x14),
	RMACLow:       bits(0x18, 31, 16),
	TClass:        bits(0x18, 15, 8),
	HopLimit:      bits(0x18, 7, 0),
	GRH:           bit(0x1c, 30),
	SourceIndex:   bits(0x1c, 27, 20),
	FlowLabel:     bits(0x1c, 19, 0),
	RGID:          area(0x20, 16),
}

// AVLen is the length of an extended address vector.
const AVLen = 48

// DataSeg is a piece of memory. With Inline the data follow the first dword, and ByteCount has
// 10 bits less.
var DataSeg = struct{ Inline, ByteCount, LKey, Address Field }{
	Inline: bit(0x00, 31), ByteCount: bits(0x00, 30, 0), LKey: dword(0x04), Address: qword(0x08),
}

// NextSeg is the first segment of a receive of a linked list.
var NextSeg = struct{ NextIndex Field }{NextIndex: bits(0x00, 15, 0)}

// UMRCtrl is the second segment of a UMR. In a longer request a mkey context follows, and then
// translation entries or a data segment for them.
var UMRCtrl = struct {
	Inline, CheckFree, OffsetEnabled, CheckQPN, Octowords, Offset, OffsetHigh, Mask Field
}{
	Inline:        bit(0x00, 31),
	CheckFree:     bits(0x00, 30, 29),
	OffsetEnabled: bit(0x00, 28),
	CheckQPN:      bit(0x00, 27),
	Octowords:     bits(0x04, 31, 16),
	Offset:        bits(0x04, 15, 0),
	OffsetHigh:    dword(0x10),
	Mask:          qword(0x08),
}

// Values of UMRCtrl.CheckFree.
const (
	UMRCheckNone    = 0
	UMRCheckFree    = 1 // fail unless the key is free
	UMRCheckNotFree = 2 // fail if it is free
)

// Lengths of the parts of a UMR.
const (
	UMRCtrlLen    = 48
	MkeyLen       = 64
	UMRDataOffset = 16 + UMRCtrlLen + MkeyLen
)

// Bits of UMRCtrl.Mask, which select the fields of the mkey context to change,
// MLX5_MKEY_MASK_... of Linux.
const (
	MaskLength       = 1 << 0
	MaskPageSize     = 1 << 1
	MaskOctowords    = 1 << 2
	MaskStartAddr    = 1 << 6
	MaskPD           = 1 << 7
	MaskRemoteInv    = 1 << 8
	MaskSigErr       = 1 << 9
	MaskBSF          = 1 << 12
	MaskKey          = 1 << 13
	MaskQPN          = 1 << 14
	MaskLocalRead    = 1 << 17
	MaskLocalWrite   = 1 << 18
	MaskRemoteRead   = 1 << 19
	MaskRemoteWrite  = 1 << 20
	MaskAtomic       = 1 << 21
	MaskSmallFence   = 1 << 23
	MaskRelaxedWrite = 1 << 25
	MaskRelaxedRead  = 1 << 47
	MaskFree         = 1 << 29
	MaskPageSize5    = 1 << 42 // bit 5 of the page size
)
