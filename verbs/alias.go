// SPDX-License-Identifier: Apache-2.0

package verbs

import "purerdma/provider"

// The types of the data path, which package provider defines.
type (
	// Access is a set of rights to memory.
	Access = provider.Access
	// SGE is one scatter/gather element.
	SGE = provider.SGE
	// SendWR is one request for a send queue.
	SendWR = provider.SendWR
	// SendOpcode is what a SendWR does.
	SendOpcode = provider.SendOpcode
	// SendFlags changes how a SendWR runs.
	SendFlags = provider.SendFlags
	// MWBindInfo is what OpBindMW does.
	MWBindInfo = provider.MWBindInfo
	// MWType is the type of a memory window.
	MWType = provider.MWType
	// Flush is what OpFlush does.
	Flush = provider.Flush
	// FlushType is where flushed bytes are.
	FlushType = provider.FlushType
	// FlushLevel is what a flush is about.
	FlushLevel = provider.FlushLevel
	// RecvWR is one request for a receive queue.
	RecvWR = provider.RecvWR
	// WC is one work completion.
	WC = provider.WC
	// WCStatus is how a work request ended.
	WCStatus = provider.WCStatus
	// WCOpcode is what a completed request was.
	WCOpcode = provider.WCOpcode
	// WCFlags says which fields of a WC count.
	WCFlags = provider.WCFlags
	// WCError is a work request that did not succeed.
	WCError = provider.WCError
	// QPType is the transport service of a QP.
	QPType = provider.QPType
	// QPState is the state of a QP.
	QPState = provider.QPState
	// QPCap is how much fits in the queues of a QP.
	QPCap = provider.QPCap
	// QPAttr is the attributes of a QP.
	QPAttr = provider.QPAttr
	// QPAttrMask says which fields of a QPAttr count.
	QPAttrMask = provider.QPAttrMask
	// AHAttr is the address of a remote port.
	AHAttr = provider.AHAttr
	// GlobalRoute is the routed part of an AHAttr.
	GlobalRoute = provider.GlobalRoute
	// SRQAttr is the attributes of a shared receive queue.
	SRQAttr = provider.SRQAttr
	// SRQAttrMask says which fields of an SRQAttr count.
	SRQAttrMask = provider.SRQAttrMask
	// GID is a global identifier.
	GID = provider.GID
	// MTU is a path MTU.
	MTU = provider.MTU
	// MigState is the state of path migration.
	MigState = provider.MigState
)

// ErrFull says that a send or receive queue has no room: poll completions, then
// post again.
var ErrFull = provider.ErrFull

// StateError says that a QP is in a state in which nothing can be posted to it.
type StateError = provider.StateError

// Constants of package provider; see there.
const (
	LocalWrite      = provider.LocalWrite
	RemoteWrite     = provider.RemoteWrite
	RemoteRead      = provider.RemoteRead
	RemoteAtomic    = provider.RemoteAtomic
	MWBind          = provider.MWBind
	ZeroBased       = provider.ZeroBased
	OnDemand        = provider.OnDemand
	HugeTLB         = provider.HugeTLB
	RelaxedOrdering = provider.RelaxedOrdering
	FlushGlobal     = provider.FlushGlobal
	FlushPersistent = provider.FlushPersistent

	MWType1 = provider.MWType1
	MWType2 = provider.MWType2

	OpWrite       = provider.OpWrite
	OpWriteImm    = provider.OpWriteImm
	OpSend        = provider.OpSend
	OpSendImm     = provider.OpSendImm
	OpRead        = provider.OpRead
	OpCompareSwap = provider.OpCompareSwap
	OpFetchAdd    = provider.OpFetchAdd
	OpSendInv     = provider.OpSendInv
	OpReadInv     = provider.OpReadInv
	OpLocalInv    = provider.OpLocalInv
	OpBindMW      = provider.OpBindMW
	OpFlush       = provider.OpFlush
	OpAtomicWrite = provider.OpAtomicWrite

	ToGlobal     = provider.ToGlobal
	ToPersistent = provider.ToPersistent
	FlushRange   = provider.FlushRange
	FlushMR      = provider.FlushMR

	SendFence     = provider.SendFence
	SendSignaled  = provider.SendSignaled
	SendSolicited = provider.SendSolicited

	WCSuccess        = provider.WCSuccess
	WCLocLenErr      = provider.WCLocLenErr
	WCLocQPOpErr     = provider.WCLocQPOpErr
	WCLocEECOpErr    = provider.WCLocEECOpErr
	WCLocProtErr     = provider.WCLocProtErr
	WCWRFlushErr     = provider.WCWRFlushErr
	WCMWBindErr      = provider.WCMWBindErr
	WCBadRespErr     = provider.WCBadRespErr
	WCLocAccessErr   = provider.WCLocAccessErr
	WCRemInvReqErr   = provider.WCRemInvReqErr
	WCRemAccessErr   = provider.WCRemAccessErr
	WCRemOpErr       = provider.WCRemOpErr
	WCRetryExcErr    = provider.WCRetryExcErr
	WCRNRRetryExcErr = provider.WCRNRRetryExcErr
	WCLocRDDViolErr  = provider.WCLocRDDViolErr
	WCRemInvRDReqErr = provider.WCRemInvRDReqErr
	WCRemAbortErr    = provider.WCRemAbortErr
	WCInvEECNErr     = provider.WCInvEECNErr
	WCInvEECStateErr = provider.WCInvEECStateErr
	WCFatalErr       = provider.WCFatalErr
	WCRespTimeoutErr = provider.WCRespTimeoutErr
	WCGeneralErr     = provider.WCGeneralErr

	WCSend         = provider.WCSend
	WCWrite        = provider.WCWrite
	WCRead         = provider.WCRead
	WCCompareSwap  = provider.WCCompareSwap
	WCFetchAdd     = provider.WCFetchAdd
	WCBindMW       = provider.WCBindMW
	WCLocalInv     = provider.WCLocalInv
	WCFlush        = provider.WCFlush
	WCAtomicWrite  = provider.WCAtomicWrite
	WCRecv         = provider.WCRecv
	WCRecvWriteImm = provider.WCRecvWriteImm

	WCGRH      = provider.WCGRH
	WCWithImm  = provider.WCWithImm
	WCIPCsumOK = provider.WCIPCsumOK
	WCWithInv  = provider.WCWithInv

	RC = provider.RC
	UC = provider.UC
	UD = provider.UD

	QPReset = provider.QPReset
	QPInit  = provider.QPInit
	QPRTR   = provider.QPRTR
	QPRTS   = provider.QPRTS
	QPSQD   = provider.QPSQD
	QPSQE   = provider.QPSQE
	QPErr   = provider.QPErr

	MTU256  = provider.MTU256
	MTU512  = provider.MTU512
	MTU1024 = provider.MTU1024
	MTU2048 = provider.MTU2048
	MTU4096 = provider.MTU4096

	MigMigrated = provider.MigMigrated
	MigRearm    = provider.MigRearm
	MigArmed    = provider.MigArmed

	SRQAttrMaxWR = provider.SRQAttrMaxWR
	SRQAttrLimit = provider.SRQAttrLimit

	QPAttrState            = provider.QPAttrState
	QPAttrCurState         = provider.QPAttrCurState
	QPAttrEnSQDAsyncNotify = provider.QPAttrEnSQDAsyncNotify
	QPAttrAccess           = provider.QPAttrAccess
	QPAttrPKeyIndex        = provider.QPAttrPKeyIndex
	QPAttrPort             = provider.QPAttrPort
	QPAttrQKey             = provider.QPAttrQKey
	QPAttrAV               = provider.QPAttrAV
	QPAttrPathMTU          = provider.QPAttrPathMTU
	QPAttrTimeout          = provider.QPAttrTimeout
	QPAttrRetryCnt         = provider.QPAttrRetryCnt
	QPAttrRNRRetry         = provider.QPAttrRNRRetry
	QPAttrRQPSN            = provider.QPAttrRQPSN
	QPAttrMaxRdAtomic      = provider.QPAttrMaxRdAtomic
	QPAttrAltPath          = provider.QPAttrAltPath
	QPAttrMinRNRTimer      = provider.QPAttrMinRNRTimer
	QPAttrSQPSN            = provider.QPAttrSQPSN
	QPAttrMaxDestRdAtomic  = provider.QPAttrMaxDestRdAtomic
	QPAttrPathMigState     = provider.QPAttrPathMigState
	QPAttrCap              = provider.QPAttrCap
	QPAttrDestQPNum        = provider.QPAttrDestQPNum
	QPAttrRateLimit        = provider.QPAttrRateLimit
)
