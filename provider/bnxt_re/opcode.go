// SPDX-License-Identifier: Apache-2.0

package bnxtre

import "purerdma/provider"

// opKind is the form of a request.
type opKind uint8

const (
	opNone opKind = iota
	opSends
	opWrites
	opReads
	opAtomics
)

// operation describes an operation of provider.SendOpcode.
type operation struct {
	code  uint8
	kind  opKind
	extra bool // has immediate data or a key to invalidate
	wc    provider.WCOpcode
}

// operations lists the operations of a send queue of type RC. The adapter may lack atomics.
var operations = [16]operation{
	provider.OpSend:        {code: opSend, kind: opSends, wc: provider.WCSend},
	provider.OpSendImm:     {code: opSendImm, kind: opSends, extra: true, wc: provider.WCSend},
	provider.OpSendInv:     {code: opSendInv, kind: opSends, extra: true, wc: provider.WCSend},
	provider.OpWrite:       {code: opWrite, kind: opWrites, wc: provider.WCWrite},
	provider.OpWriteImm:    {code: opWriteImm, kind: opWrites, extra: true, wc: provider.WCWrite},
	provider.OpRead:        {code: opRead, kind: opReads, wc: provider.WCRead},
	provider.OpCompareSwap: {code: opCompareSwap, kind: opAtomics, wc: provider.WCCompareSwap},
	provider.OpFetchAdd:    {code: opFetchAdd, kind: opAtomics, wc: provider.WCFetchAdd},
}

// datagrams lists the operations of a send queue of type UD.
var datagrams = [16]operation{
	provider.OpSend:    operations[provider.OpSend],
	provider.OpSendImm: operations[provider.OpSendImm],
}

// headFlags has the bits of a request's first word for its provider.SendFlags.
var headFlags = [8]uint32{
	1: headFence, 2: headSignaled, 3: headFence | headSignaled,
	4: headSolicited, 5: headSolicited | headFence, 6: headSolicited | headSignaled, 7: headSolicited | headFence | headSignaled,
}

// statusFlushed is the status of a receive that the adapter has not taken (BNXT_RE_RSP_ST_HW_FLUSH). The provider
// flushes it.
const statusFlushed = 8

// sendStatuses maps the statuses of requests (enum bnxt_re_req_wc_status). An unknown status is a general error.
var sendStatuses = statuses(
	provider.WCSuccess, provider.WCBadRespErr, provider.WCLocLenErr, provider.WCLocQPOpErr, provider.WCLocProtErr,
	provider.WCMWBindErr, provider.WCRemInvReqErr, provider.WCRemAccessErr, provider.WCRemOpErr, provider.WCRNRRetryExcErr,
	provider.WCRetryExcErr, provider.WCWRFlushErr,
)

// recvStatuses maps the statuses of receives (enum bnxt_re_rsp_wc_status).
var recvStatuses = statuses(
	provider.WCSuccess, provider.WCLocAccessErr, provider.WCLocLenErr, provider.WCLocProtErr, provider.WCLocQPOpErr,
	provider.WCMWBindErr, provider.WCRemInvReqErr, provider.WCWRFlushErr, provider.WCFatalErr,
)

func statuses(known ...provider.WCStatus) (s [256]provider.WCStatus) {
	for i := range s {
		s[i] = provider.WCGeneralErr
	}
	copy(s[:], known)
	return s
}
