// SPDX-License-Identifier: Apache-2.0

package prm

// CreateContextIn is the input of the commands that create a SQ, RQ, RMP, TIS, TIR or RQT. The
// context is at the same place in each of them. Its length depends on the object.
var CreateContextIn = struct {
	Opcode, UID, OpMod Field
	Context            Tail
}{
	Opcode: HeaderIn.Opcode, UID: HeaderIn.UID, OpMod: HeaderIn.OpMod, Context: 0x20,
}

// ModifyContextIn is the input of the commands that change one of them. State is the current
// state of a SQ, RQ or RMP. Bitmask selects the fields to change.
var ModifyContextIn = struct {
	Opcode, UID, OpMod, State, Number, Bitmask Field
	Context                                    Tail
}{
	Opcode: HeaderIn.Opcode, UID: HeaderIn.UID, OpMod: HeaderIn.OpMod,
	State: bits(0x08, 31, 28), Number: bits(0x08, 23, 0), Bitmask: qword(0x10), Context: 0x20,
}

// WQSize is the size of a WQ, which the pages follow.
const WQSize = 0xc0

// QueueContextSize is the size of the contexts of SQ and RQ without the pages of their WQ.
const QueueContextSize = 0x30 + WQSize

// SQC is the context of a send queue of Ethernet.
var SQC = struct {
	Rlkey, CDMaster, FastRegister, FlushInError, MinInline, State Field
	RegUMR, UserIndex, CQN, TISListSize, TIS                      Field
	WQ                                                            Area
}{
	Rlkey: bit(0x00, 31), CDMaster: bit(0x00, 30), FastRegister: bit(0x00, 29), FlushInError: bit(0x00, 28),
	MinInline: bits(0x00, 26, 24), State: bits(0x00, 23, 20), RegUMR: bit(0x00, 19),
	UserIndex: bits(0x04, 23, 0), CQN: bits(0x08, 23, 0), TISListSize: bits(0x20, 31, 16), TIS: bits(0x2c, 23, 0),
	WQ: area(0x30, WQSize),
}

// RQC is the context of a receive queue of Ethernet.
var RQC = struct {
	Rlkey, ScatterFCS, VLANStripDisable, MemType, State, FlushInError Field
	UserIndex, CQN, Counters, RMP                                     Field
	WQ                                                                Area
}{
	Rlkey: bit(0x00, 31), ScatterFCS: bit(0x00, 29), VLANStripDisable: bit(0x00, 28), MemType: bits(0x00, 27, 24),
	State: bits(0x00, 23, 20), FlushInError: bit(0x00, 18),
	UserIndex: bits(0x04, 23, 0), CQN: bits(0x08, 23, 0), Counters: bits(0x0c, 31, 24), RMP: bits(0x10, 23, 0),
	WQ: area(0x30, WQSize),
}

// States of SQ and RQ.
const (
	QueueReset = 0
	QueueReady = 1
	QueueError = 3
)

// TISSize is the size of a TISC. TIRSize is the size of a TIRC.
const (
	TISSize = 0xa0
	TIRSize = 0xf0
)

// TISC is the context of a transport interface for sending.
var TISC = struct{ Prio, TransportDomain, PD Field }{
	Prio: bits(0x00, 19, 16), TransportDomain: bits(0x24, 23, 0), PD: bits(0x2c, 23, 0),
}

// TIRC is the context of a transport interface for receiving. It refers to one RQ, or to a
// table of RQs and a hash.
var TIRC = struct {
	DispatchType, InlineRQ            Field
	Symmetric, Table, HashFunction    Field
	SelfLBBlock, TransportDomain      Field
	ToeplitzKey                       Area
	HashL3IPv6, HashL4UDP, HashFields Field
}{
	DispatchType: bits(0x04, 31, 28), InlineRQ: bits(0x1c, 23, 0),
	Symmetric: bit(0x20, 31), Table: bits(0x20, 23, 0), HashFunction: bits(0x24, 31, 28),
	SelfLBBlock: bits(0x24, 25, 24), TransportDomain: bits(0x24, 23, 0),
	ToeplitzKey: area(0x28, 40),
	HashL3IPv6:  bit(0x50, 31), HashL4UDP: bit(0x50, 30), HashFields: bits(0x50, 29, 0),
}

// Values of TIRC. The fields of a hash are bits.
const (
	TIRDirect   = 0
	TIRIndirect = 1

	HashNone     = 0
	HashXOR8     = 1
	HashToeplitz = 2

	HashSrcIP   = 1 << 0
	HashDstIP   = 1 << 1
	HashL4Sport = 1 << 2
	HashL4Dport = 1 << 3
)

// RQTC is the context of a table of RQs. Their numbers follow as dwords.
var RQTC = struct {
	MaxSize, ActualSize Field
	RQs                 Tail
}{
	MaxSize: bits(0x14, 15, 0), ActualSize: bits(0x18, 15, 0), RQs: 0xf0,
}

// RQNumber is an entry of a table of RQs.
var RQNumber = bits(0x00, 23, 0)

// EthernetSeg is the segment of an Ethernet send request after the control segment. InlineSize
// bytes of the frame start in its last two bytes.
var EthernetSeg = struct{ L3Checksum, L4Checksum, MSS, InlineSize Field }{
	L4Checksum: bit(0x04, 31), L3Checksum: bit(0x04, 30), MSS: bits(0x04, 13, 0), InlineSize: bits(0x0c, 31, 16),
}

// EthernetSegLen is its length. InlineStart is the offset of the frame in it, and InlineInSeg
// the length of the frame's part in it.
const (
	EthernetSegLen = 16
	InlineStart    = 14
	InlineInSeg    = 2
)

// EthernetCQE contains the additional fields in completions of a frame's receive.
var EthernetCQE = struct{ RSSHash, RSSL4, RSSIP, Checksum, L4OK, L3OK, L2OK, L4Type, L3Type Field }{
	RSSHash: dword(0x0c), RSSL4: bits(0x10, 31, 30), RSSIP: bits(0x10, 27, 26), Checksum: bits(0x14, 31, 16),
	L4OK: bit(0x1c, 26), L3OK: bit(0x1c, 25), L2OK: bit(0x1c, 24), L4Type: bits(0x1c, 22, 20), L3Type: bits(0x1c, 19, 18),
}

// Values of EthernetCQE.
const (
	RSSIPv4 = 1
	RSSIPv6 = 2
	RSSTCP  = 1
	RSSUDP  = 2

	CQEL3IPv6 = 1
	CQEL3IPv4 = 2
	CQEL4TCP  = 1
	CQEL4UDP  = 2
)

// Bits of MODIFY_RQ's Bitmask.
const (
	ModifyRQVLAN     = 1 << 1
	ModifyRQCounters = 1 << 3
)
