// SPDX-License-Identifier: Apache-2.0

package prm

// QPC is the context of a queue pair.
var QPC = struct {
	State, LagAffinity, Service, IsolateVL, PMState, E2ECredit, OffloadType, EndPadding,
	Signature, BlockLoopback, AtomicLikeWrite, LatencySensitive, DrainSigErr, PD,
	MTU, LogMsgMax, LogRQSize, LogRQStride, NoSQ, LogSQSize, TimestampFormat, ReservedLKey, Stateless,
	CounterSet, UARPage, UserIndex, LogPageSize, RemoteQPN Field

	Primary, Secondary Area

	LogAckReqFreq, LogSRAMax, RetryCount, RNRRetry, FRE, CurRNRRetry, CurRetryCount,
	NextSendPSN, LogDCIStreams, SendCQN, LogDCIErrored, DETHSourceQPN, LastAckedPSN, SSN,
	LogRRAMax, AtomicMode, RemoteRead, RemoteWrite, RemoteAtomic, PageOffset, CDSlaveRecv, CDSlaveSend, CDMaster,
	MinRNRNAK, NextRecvPSN, XRCD, RecvCQN, DBRAddr, QKey, RQType, SRQN, RMSN,
	HWSQCounter, SWSQCounter, HWRQCounter, SWRQCounter, CGS, ScatterReq, ScatterResp, DCAccessKey, DBRUMEMValid Field
}{
	State:            bits(0x00, 31, 28),
	LagAffinity:      bits(0x00, 27, 24),
	Service:          bits(0x00, 23, 16),
	IsolateVL:        bit(0x00, 13),
	PMState:          bits(0x00, 12, 11),
	E2ECredit:        bits(0x00, 9, 8),
	OffloadType:      bits(0x00, 7, 4),
	EndPadding:       bits(0x00, 3, 2),
	Signature:        bit(0x04, 31),
	BlockLoopback:    bit(0x04, 30),
	AtomicLikeWrite:  bit(0x04, 29),
	LatencySensitive: bit(0x04, 28),
	DrainSigErr:      bit(0x04, 26),
	PD:               bits(0x04, 23, 0),
	MTU:              bits(0x08, 31, 29), // 1 is 256 bytes, 5 is 4096
	LogMsgMax:        bits(0x08, 28, 24),
	LogRQSize:        bits(0x08, 22, 19),
	LogRQStride:      bits(0x08, 18, 16), // above 4
	NoSQ:             bit(0x08, 15),
	LogSQSize:        bits(0x08, 14, 11), // in WQEBBs
	TimestampFormat:  bits(0x08, 7, 6),
	ReservedLKey:     bit(0x08, 4),
	Stateless:        bits(0x08, 3, 0),
	CounterSet:       bits(0x0c, 31, 24),
	UARPage:          bits(0x0c, 23, 0),
	UserIndex:        bits(0x10, 23, 0),
	LogPageSize:      bits(0x14, 28, 24), // above 12
	RemoteQPN:        bits(0x14, 23, 0),
	Primary:          area(0x18, 44),
	Secondary:        area(0x44, 44),
	LogAckReqFreq:    bits(0x70, 31, 28),
	LogSRAMax:        bits(0x70, 23, 21),
	RetryCount:       bits(0x70, 18, 16),
	RNRRetry:         bits(0x70, 15, 13), // 7 means no limit
	FRE:              bit(0x70, 11),
	CurRNRRetry:      bits(0x70, 10, 8),
	CurRetryCount:    bits(0x70, 7, 5),
	NextSendPSN:      bits(0x78, 23, 0),
	LogDCIStreams:    bits(0x7c, 28, 24),
	SendCQN:          bits(0x7c, 23, 0),
	LogDCIErrored:    bits(0x80, 28, 24),
	DETHSourceQPN:    bits(0x80, 23, 0),
	LastAckedPSN:     bits(0x88, 23, 0),
	SSN:              bits(0x8c, 23, 0),
	LogRRAMax:        bits(0x90, 23, 21),
	AtomicMode:       bits(0x90, 19, 16),
	RemoteRead:       bit(0x90, 15),
	RemoteWrite:      bit(0x90, 14),
	RemoteAtomic:     bit(0x90, 13),
	PageOffset:       bits(0x90, 11, 6), // in 64ths of a page
	CDSlaveRecv:      bit(0x90, 2),
	CDSlaveSend:      bit(0x90, 1),
	CDMaster:         bit(0x90, 0),
	MinRNRNAK:        bits(0x94, 28, 24),
	NextRecvPSN:      bits(0x94, 23, 0),
	XRCD:             bits(0x98, 23, 0),
	RecvCQN:          bits(0x9c, 23, 0),
	DBRAddr:          qword(0xa0),
	QKey:             dword(0xa8),
	RQType:           bits(0xac, 26, 24),
	SRQN:             bits(0xac, 23, 0),
	RMSN:             bits(0xb0, 23, 0),
	HWSQCounter:      bits(0xb4, 31, 16),
	SWSQCounter:      bits(0xb4, 15, 0),
	HWRQCounter:      dword(0xb8),
	SWRQCounter:      dword(0xbc),
	CGS:              bit(0xc4, 16),
	ScatterReq:       bits(0xc4, 15, 8),
	ScatterResp:      bits(0xc4, 7, 0),
	DCAccessKey:      qword(0xc8),
	DBRUMEMValid:     bit(0xd0, 28),
}

// ADS is an address path in a QPC.
var ADS = struct {
	ForceLoopback, FreeAR, PKeyIndex, GRH, MLID, RLID, AckTimeout, SourceIndex, StatRate, HopLimit, TClass, FlowLabel Field
	RGID                                                                                                              Area
	FDSCP, FECN, FEthPrio, ECN, DSCP, UDPSport, DEI, EthPrio, SL, Port, RMACHigh, RMACLow                             Field
}{
	ForceLoopback: bit(0x00, 31),
	FreeAR:        bit(0x00, 30),
	PKeyIndex:     bits(0x00, 15, 0),
	GRH:           bit(0x04, 23),
	MLID:          bits(0x04, 22, 16),
	RLID:          bits(0x04, 15, 0), // the UDP source port for RoCE
	AckTimeout:    bits(0x08, 31, 27),
	SourceIndex:   bits(0x08, 23, 16),
	StatRate:      bits(0x08, 11, 8),
	HopLimit:      bits(0x08, 7, 0),
	TClass:        bits(0x0c, 27, 20),
	FlowLabel:     bits(0x0c, 19, 0),
	RGID:          area(0x10, 16),
	FDSCP:         bit(0x20, 27),
	FECN:          bit(0x20, 26),
	FEthPrio:      bit(0x20, 24),
	ECN:           bits(0x20, 23, 22),
	DSCP:          bits(0x20, 21, 16),
	UDPSport:      bits(0x20, 15, 0),
	DEI:           bit(0x24, 31),
	EthPrio:       bits(0x24, 30, 28),
	SL:            bits(0x24, 27, 24),
	Port:          bits(0x24, 23, 16),
	RMACHigh:      bits(0x24, 15, 0),
	RMACLow:       dword(0x28),
}

// QPIn is the input of CREATE_QP and of the commands that move a QP. QUERY_QP's
// output has the context and the pages at the same places.
var QPIn = struct {
	Opcode, UID, OpMod Field
	QPN                Field // requested number, for CREATE_QP
	OptParam, ECE      Field
	Context            Area
	PAS                Tail
}{
	Opcode: HeaderIn.Opcode, UID: HeaderIn.UID, OpMod: HeaderIn.OpMod,
	QPN:      bits(0x08, 23, 0),
	OptParam: dword(0x10), ECE: dword(0x14),
	Context: area(0x18, 232),
	PAS:     0x110,
}

// QPOut is the output of CREATE_QP and of the commands that move a QP. CREATE_DCT returns the
// options at the same place.
var QPOut = struct{ QPN, ECE Field }{QPN: bits(0x08, 23, 0), ECE: dword(0x0c)}

// ECETrigger in CREATE_QP's options requests all options of the device, and the other bits are
// ignored.
const ECETrigger = 1 << 28

// QPInLen is the minimum length of commands with a QPC.
const QPInLen = 0x110

// States of a QP: enum mlx5_qp_state of Linux.
const (
	QPReset = 0
	QPInit  = 1
	QPRTR   = 2
	QPRTS   = 3
	QPSQErr = 4
	QPSQD   = 5
	QPErr   = 6
	// QPSQDraining is QPSQD while requests are in flight.
	QPSQDraining = 7
)

// Transport services of a QP.
const (
	ServiceRC   = 0x0
	ServiceUC   = 0x1
	ServiceUD   = 0x2
	ServiceXRC  = 0x3
	ServiceDCI  = 0x5
	ServiceQP0  = 0x7
	ServiceQP1  = 0x8
	ServiceRaw  = 0x9
	ServiceRegU = 0xc // for UMR only
)

// Values of QPC.RQType.
const (
	RQRegular = 0
	RQShared  = 1
	RQRMP     = 2
	RQNone    = 3
)

// Bits of QPIn.OptParam: enum mlx5_qp_optpar of Linux.
const (
	OptAltPath     = 1 << 0
	OptRemoteRead  = 1 << 1
	OptAtomic      = 1 << 2
	OptRemoteWrite = 1 << 3
	OptPKeyIndex   = 1 << 4
	OptQKey        = 1 << 5
	OptRNRTimeout  = 1 << 6
	OptPrimary     = 1 << 7
	OptSRAMax      = 1 << 8
	OptRRAMax      = 1 << 9
	OptPMState     = 1 << 10
	OptRetryCount  = 1 << 12
	OptRNRRetry    = 1 << 13
	OptAckTimeout  = 1 << 14
	OptLagAffinity = 1 << 15
	OptPort        = 1 << 16
	OptSRQN        = 1 << 18
	OptRecvCQN     = 1 << 19
	OptDCHS        = 1 << 20
	OptDCKey       = 1 << 21
	OptPacing      = 1 << 22
	OptCounterSet  = 1 << 25
)

// Values of QPC.ScatterReq and QPC.ScatterResp, which direct short data to the completion.
const (
	ScatterResp32 = 0x01
	ScatterResp64 = 0x02
	ScatterReq32  = 0x11
	ScatterReq64  = 0x22
)

// MCGIn is the input of ATTACH_TO_MCG and DETACH_FROM_MCG.
var MCGIn = struct {
	Opcode, UID, OpMod, QPN Field
	GID                     Area
}{
	Opcode: HeaderIn.Opcode, UID: HeaderIn.UID, OpMod: HeaderIn.OpMod,
	QPN: bits(0x08, 23, 0), GID: area(0x10, 16),
}

// DCTC is the context of a DC target.
var DCTC = struct {
	State, UserIndex, CQN, CounterSet, AtomicMode, RemoteRead, RemoteWrite, RemoteAtomic, AtomicLikeWrite, LatencySensitive, ReservedLKey, FreeAR,
	ScatterResp, MinRNRNAK, SRQN, PD, TClass, FlowLabel, AccessKey, MTU, Port, PKeyIndex, SourceIndex, HopLimit, Violations,
	DEI, EthPrio, ECN, DSCP, ECE Field
}{
	State:            bits(0x00, 27, 24),
	UserIndex:        bits(0x04, 23, 0),
	CQN:              bits(0x08, 23, 0),
	CounterSet:       bits(0x0c, 31, 24),
	AtomicMode:       bits(0x0c, 23, 20),
	RemoteRead:       bit(0x0c, 19),
	RemoteWrite:      bit(0x0c, 18),
	RemoteAtomic:     bit(0x0c, 17),
	AtomicLikeWrite:  bit(0x0c, 16),
	LatencySensitive: bit(0x0c, 15),
	ReservedLKey:     bit(0x0c, 14),
	FreeAR:           bit(0x0c, 13),
	ScatterResp:      bits(0x10, 23, 16),
	MinRNRNAK:        bits(0x10, 12, 8),
	SRQN:             bits(0x14, 23, 0),
	PD:               bits(0x18, 23, 0),
	TClass:           bits(0x1c, 31, 24),
	FlowLabel:        bits(0x1c, 19, 0),
	AccessKey:        qword(0x20),
	MTU:              bits(0x28, 26, 24),
	Port:             bits(0x28, 23, 16),
	PKeyIndex:        bits(0x28, 15, 0),
	SourceIndex:      bits(0x2c, 23, 16),
	HopLimit:         bits(0x2c, 7, 0),
	Violations:       dword(0x30),
	DEI:              bit(0x34, 11),
	EthPrio:          bits(0x34, 10, 8),
	ECN:              bits(0x34, 7, 6),
	DSCP:             bits(0x34, 5, 0),
	ECE:              dword(0x3c),
}

// DCTIn is the input of CREATE_DCT. QUERY_DCT's output contains the context at the same place.
var DCTIn = struct {
	Opcode, UID, OpMod Field
	Context            Area
}{
	Opcode: HeaderIn.Opcode, UID: HeaderIn.UID, OpMod: HeaderIn.OpMod,
	Context: area(0x10, 64),
}

// States of a DC target.
const (
	DCTActive   = 0
	DCTDraining = 1
	DCTDrained  = 2
)
