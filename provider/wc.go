// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"

	"purerdma/internal/enum"
)

// WCStatus is the result of a work request: enum ibv_wc_status of ibv_poll_cq(3).
type WCStatus uint32

// Statuses of a completion.
const (
	WCSuccess WCStatus = iota
	WCLocLenErr
	WCLocQPOpErr
	WCLocEECOpErr
	WCLocProtErr
	WCWRFlushErr
	WCMWBindErr
	WCBadRespErr
	WCLocAccessErr
	WCRemInvReqErr
	WCRemAccessErr
	WCRemOpErr
	WCRetryExcErr
	WCRNRRetryExcErr
	WCLocRDDViolErr
	WCRemInvRDReqErr
	WCRemAbortErr
	WCInvEECNErr
	WCInvEECStateErr
	WCFatalErr
	WCRespTimeoutErr
	WCGeneralErr
)

var statusNames = []string{
	WCSuccess:        "success",
	WCLocLenErr:      "local length error",
	WCLocQPOpErr:     "local QP operation error",
	WCLocEECOpErr:    "local EE context operation error",
	WCLocProtErr:     "local protection error",
	WCWRFlushErr:     "work request flushed",
	WCMWBindErr:      "memory window bind error",
	WCBadRespErr:     "bad response",
	WCLocAccessErr:   "local access error",
	WCRemInvReqErr:   "remote invalid request",
	WCRemAccessErr:   "remote access error",
	WCRemOpErr:       "remote operation error",
	WCRetryExcErr:    "transport retry counter exceeded",
	WCRNRRetryExcErr: "receiver-not-ready retry counter exceeded",
	WCLocRDDViolErr:  "local RDD violation",
	WCRemInvRDReqErr: "remote invalid RD request",
	WCRemAbortErr:    "operation aborted",
	WCInvEECNErr:     "invalid EE context number",
	WCInvEECStateErr: "invalid EE context state",
	WCFatalErr:       "fatal error",
	WCRespTimeoutErr: "response timeout",
	WCGeneralErr:     "general error",
}

// String describes the status in a few words.
func (s WCStatus) String() string { return enum.Name(s, "WCStatus", statusNames) }

// WCOpcode is the operation of a completed work request: enum ibv_wc_opcode of ibv_poll_cq(3). It
// is not defined when the status is not WCSuccess.
type WCOpcode uint32

// Operations of completions. Operations of receives have the bit of WCRecv.
const (
	WCSend         WCOpcode = 0
	WCWrite        WCOpcode = 1
	WCRead         WCOpcode = 2
	WCCompareSwap  WCOpcode = 3
	WCFetchAdd     WCOpcode = 4
	WCBindMW       WCOpcode = 5
	WCLocalInv     WCOpcode = 6
	WCLSO          WCOpcode = 7
	WCFlush        WCOpcode = 8
	WCAtomicWrite  WCOpcode = 9
	WCRecv         WCOpcode = 128
	WCRecvWriteImm WCOpcode = 129
)

// String returns the name of the operation.
func (o WCOpcode) String() string {
	return enum.Name(o, "WCOpcode", []string{
		WCSend: "SEND", WCWrite: "WRITE", WCRead: "READ", WCCompareSwap: "COMPARE_SWAP", WCFetchAdd: "FETCH_ADD",
		WCBindMW: "BIND_MW", WCLocalInv: "LOCAL_INV", WCLSO: "LSO", WCFlush: "FLUSH", WCAtomicWrite: "ATOMIC_WRITE",
		WCRecv: "RECV", WCRecvWriteImm: "RECV_WRITE_WITH_IMM",
	})
}

// WCFlags lists the valid optional fields of a WC: enum ibv_wc_flags of ibv_poll_cq(3).
type WCFlags uint32

// Flags of a completion.
const (
	WCGRH      WCFlags = 1 << 0 // a GRH was there (on RoCE always)
	WCWithImm  WCFlags = 1 << 1 // ImmData counts
	WCIPCsumOK WCFlags = 1 << 2
	WCWithInv  WCFlags = 1 << 3 // InvalidatedRKey counts
)

// String lists the flags.
func (f WCFlags) String() string {
	return bitNames{{uint64(WCGRH), "GRH"}, {uint64(WCWithImm), "WithImm"}, {uint64(WCIPCsumOK), "IPCsumOK"}, {uint64(WCWithInv), "WithInv"}}.format(uint64(f))
}

// WC is one work completion (struct ibv_wc of ibv_poll_cq(3)). With a status other than WCSuccess
// only ID, Status, QPNum and VendorErr are valid.
type WC struct {
	ID              uint64 // of the work request
	Status          WCStatus
	Opcode          WCOpcode
	QPNum           uint32 // the local QP
	ByteLen         uint32 // received or read bytes. Not defined for sends and writes.
	ImmData         uint32 // number in host order (SendWR.ImmData)
	InvalidatedRKey uint32
	VendorErr       uint32
	SrcQP           uint32 // datagrams: the sender's QP
	Flags           WCFlags
	SLID            uint16
	PKeyIndex       uint16
	SL              uint8
	DLIDPathBits    uint8
}

// Err returns nil for a successful completion, else a *WCError.
func (w *WC) Err() error {
	if w.Status == WCSuccess {
		return nil
	}
	return &WCError{Status: w.Status, VendorErr: w.VendorErr, QPNum: w.QPNum, ID: w.ID}
}

// WCError reports a work request that failed.
type WCError struct {
	Status    WCStatus
	VendorErr uint32 // the device's own code (syndrome), 0 if it reports none
	QPNum     uint32 // the local QP
	ID        uint64 // of the work request
}

// Error names the QP, the work request, the status and the syndrome.
func (e *WCError) Error() string {
	s := fmt.Sprintf("QP %#x, work request %d: %s", e.QPNum, e.ID, e.Status)
	if e.VendorErr != 0 {
		s += fmt.Sprintf(" (vendor syndrome %#x)", e.VendorErr)
	}
	return s
}
