// SPDX-License-Identifier: Apache-2.0

package prm

// CQC is the context of a completion queue.
var CQC = struct {
	Status, CQESize, CollapsedCQ, BreakModeration, OverrunIgnore, PeriodMode, Compression, MiniFormat, State, CompressionLayout,
	PageOffset, LogCQSize, UARPage, Period, MaxCount, EQN, LogPageSize,
	LastNotified, LastSolicited, ConsumerCounter, ProducerCounter, DBRAddr Field
}{
	Status:            bits(0x00, 31, 28),
	CQESize:           bits(0x00, 23, 21), // 0 is 64 bytes, 1 is 128, 2 is 128 with padding
	CollapsedCQ:       bit(0x00, 20),
	BreakModeration:   bit(0x00, 18),
	OverrunIgnore:     bit(0x00, 17),
	PeriodMode:        bits(0x00, 16, 15),
	Compression:       bit(0x00, 14),
	MiniFormat:        bits(0x00, 13, 12),
	State:             bits(0x00, 11, 8),
	CompressionLayout: bits(0x00, 1, 0),
	PageOffset:        bits(0x08, 11, 6), // in 64ths of a page
	LogCQSize:         bits(0x0c, 28, 24),
	UARPage:           bits(0x0c, 23, 0),
	Period:            bits(0x10, 27, 16),
	MaxCount:          bits(0x10, 15, 0),
	EQN:               dword(0x14),
	LogPageSize:       bits(0x18, 28, 24), // above 12
	LastNotified:      bits(0x20, 23, 0),
	LastSolicited:     bits(0x24, 23, 0),
	ConsumerCounter:   bits(0x28, 23, 0),
	ProducerCounter:   bits(0x2c, 23, 0),
	DBRAddr:           qword(0x38),
}

// Values of CQC.Status and CQC.State.
const (
	CQStatusOK       = 0x0
	CQStatusOverflow = 0x9
	CQStatusWriteErr = 0xa

	CQStateArmedSolicited = 0x6
	CQStateArmed          = 0x9
	CQStateFired          = 0xa
)

// CQIn is the input of CREATE_CQ and MODIFY_CQ. QUERY_CQ's output has the context
// and the pages at the same places.
var CQIn = struct {
	Opcode, UID, OpMod Field
	CQN, Select        Field // of MODIFY_CQ
	Context            Area
	PAS                Tail
}{
	Opcode: HeaderIn.Opcode, UID: HeaderIn.UID, OpMod: HeaderIn.OpMod,
	CQN: bits(0x08, 23, 0), Select: dword(0x0c),
	Context: area(0x10, 64),
	PAS:     0x110,
}

// Bits of CQIn.Select, which selects the fields that MODIFY_CQ changes. They differ for its
// OpMod of a resize.
const (
	ModifyCQPeriod   = 1 << 0
	ModifyCQMaxCount = 1 << 1
	ModifyCQOverrun  = 1 << 2

	OpModResizeCQ        = 1
	ResizeCQLogSize      = 1 << 0
	ResizeCQPageOffset   = 1 << 1
	ResizeCQPageSize     = 1 << 2
	ResizeCQEverything   = ResizeCQLogSize | ResizeCQPageOffset | ResizeCQPageSize
	CQESize64            = 0
	CQESize128           = 1
	CQESize128Pad        = 2
	ArmSolicited         = 1 << 24 // in the word that arms a queue
	ArmSequenceShift     = 28      // shift of the sequence number in it
	ConsumerIndexMask    = 1<<24 - 1
	DoorbellRecordLength = 8
)

// CQE is a completion, the last 64 bytes of an entry of the ring.
var CQE = struct {
	Inline                            Area
	MLPath, SLID                      Field // The low 7 bits of MLPath belong to the destination's LID.
	GRH, SL, RemoteQPN                Field
	UserIndex, Imm, ByteCount         Field
	Timestamp                         Field
	VendorSyndrome, Syndrome          Field // For a failure, in place of Timestamp.
	SendOpcode, QPN, WQECounter       Field
	Opcode, Format, Solicited, Owner  Field
	L3Type                            Field // For RoCE, in place of SL.
	ChecksumOK, VLANStripped, VLANTag Field // For Ethernet.
}{
	Inline:         area(0x00, 32),
	MLPath:         bits(0x10, 23, 16),
	SLID:           bits(0x14, 15, 0),
	GRH:            bits(0x18, 29, 28),
	SL:             bits(0x18, 27, 24),
	RemoteQPN:      bits(0x18, 23, 0),
	UserIndex:      dword(0x20),
	Imm:            dword(0x24),
	ByteCount:      dword(0x2c),
	Timestamp:      qword(0x30),
	VendorSyndrome: bits(0x34, 15, 8),
	Syndrome:       bits(0x34, 7, 0),
	SendOpcode:     bits(0x38, 31, 24),
	QPN:            bits(0x38, 23, 0),
	WQECounter:     bits(0x3c, 31, 16),
	Opcode:         bits(0x3c, 7, 4),
	Format:         bits(0x3c, 3, 2),
	Solicited:      bit(0x3c, 1),
	Owner:          bit(0x3c, 0),
	L3Type:         bits(0x18, 25, 24),
	ChecksumOK:     bits(0x1c, 26, 24),
	VLANStripped:   bit(0x1c, 16),
	VLANTag:        bits(0x1c, 15, 0),
}

// MiniCQE contains the fields that a compressed CQE has for each of its completions.
var MiniCQE = struct {
	WQECounter, SendOpcode Field // for a request, while a receive has a hash or a checksum in their place
	ByteCount              Field
}{
	WQECounter: bits(0x00, 31, 16),
	SendOpcode: bits(0x00, 15, 8),
	ByteCount:  dword(0x04),
}

// Lengths of compressed CQEs, the format of the title, and values of CQC.MiniFormat.
const (
	MiniCQELen    = 8
	MiniCQEs      = 8 // number in one CQE
	CQECompressed = 3 // in CQE.Format

	MiniHash     = 0
	MiniChecksum = 1
)

// CQELen is the length of a CQE.
const CQELen = 64

// Values of CQE.Opcode.
const (
	CQEReq       = 0x0 // completion of a send queue.
	CQERespWrite = 0x1 // received a WRITE with immediate data.
	CQERespSend  = 0x2 // received a SEND.
	CQERespImm   = 0x3 // received a SEND with immediate data.
	CQERespInv   = 0x4 // received a SEND with invalidation.
	CQEResize    = 0x5 // the ring continues in other memory.
	CQEReqErr    = 0xd // a send failed.
	CQERespErr   = 0xe // a receive failed.
	CQEInvalid   = 0xf // the device has not written this entry.
)

// Syndrome is the reason of a work request's failure, MLX5_CQE_SYNDROME_... of Linux.
type Syndrome uint8

// Syndromes of failed work requests.
const (
	SyndromeNone             Syndrome = 0x00
	SyndromeLocalLength      Syndrome = 0x01
	SyndromeLocalQPOp        Syndrome = 0x02
	SyndromeLocalProt        Syndrome = 0x04
	SyndromeFlush            Syndrome = 0x05
	SyndromeMWBind           Syndrome = 0x06
	SyndromeBadResponse      Syndrome = 0x10
	SyndromeLocalAccess      Syndrome = 0x11
	SyndromeRemoteInvalid    Syndrome = 0x12
	SyndromeRemoteAccess     Syndrome = 0x13
	SyndromeRemoteOp         Syndrome = 0x14
	SyndromeRetryExceeded    Syndrome = 0x15
	SyndromeRNRRetryExceeded Syndrome = 0x16
	SyndromeRemoteAborted    Syndrome = 0x22
)
