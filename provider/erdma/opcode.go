// SPDX-License-Identifier: Apache-2.0

package erdma

import "purerdma/provider"

// opKind is the form of a request.
type opKind uint8

const (
	opNone   opKind = iota
	opSends         // elements begin in the first block
	opWrites        // elements begin in the second block
	opReads
	opAtomics
)

// operation describes an operation of provider.SendOpcode.
type operation struct {
	code  uint8
	kind  opKind
	extra bool   // has immediate data or a key to invalidate
	one   uint64 // bits of the first word of a request of one element
}

// Bits of the first word of a SEND of one element, which has one block, and of a WRITE, which has two.
const (
	oneSend  = 1 << headSGEs
	oneWrite = 1<<headSGEs | 1<<headBlocks
)

// operations lists the operations of a send queue. The adapter may lack atomics (sendQueue.atomics).
var operations = [16]operation{
	provider.OpSend:        {code: opSend, kind: opSends, one: opSend<<headOp | oneSend},
	provider.OpSendImm:     {code: opSendImm, kind: opSends, one: opSendImm<<headOp | oneSend, extra: true},
	provider.OpSendInv:     {code: opSendInv, kind: opSends, one: opSendInv<<headOp | oneSend, extra: true},
	provider.OpWrite:       {code: opWrite, kind: opWrites, one: opWrite<<headOp | oneWrite},
	provider.OpWriteImm:    {code: opWriteImm, kind: opWrites, one: opWriteImm<<headOp | oneWrite, extra: true},
	provider.OpRead:        {code: opRead, kind: opReads},
	provider.OpCompareSwap: {code: opCompareSwap, kind: opAtomics},
	provider.OpFetchAdd:    {code: opFetchAdd, kind: opAtomics},
}

// headFlags has the bits of a request's first word for its provider.SendFlags.
var headFlags = [8]uint64{
	1: headFence, 2: headSignaled, 3: headFence | headSignaled,
	4: headSolicited, 5: headSolicited | headFence, 6: headSolicited | headSignaled, 7: headSolicited | headFence | headSignaled,
}

// known marks the valid elements of the next tables.
const known = 1 << 8

// sendOpcodes maps the adapter's operations of requests to operations of completions.
var sendOpcodes = [256]uint16{
	opWrite:       known | uint16(provider.WCWrite),
	opWriteImm:    known | uint16(provider.WCWrite),
	opRead:        known | uint16(provider.WCRead),
	opReadInv:     known | uint16(provider.WCRead),
	opSend:        known | uint16(provider.WCSend),
	opSendImm:     known | uint16(provider.WCSend),
	opSendInv:     known | uint16(provider.WCSend),
	opCompareSwap: known | uint16(provider.WCCompareSwap),
	opFetchAdd:    known | uint16(provider.WCFetchAdd),
}

// recvOpcodes maps the adapter's operations of receives to operations of completions.
var recvOpcodes = [256]uint16{
	opReceive:     known | uint16(provider.WCRecv),
	opRecvInv:     known | uint16(provider.WCRecv),
	opRecvSendImm: known | uint16(provider.WCRecv),
	opRecvImm:     known | uint16(provider.WCRecvWriteImm),
}

// status is a result of a request, and the adapter's reason.
type status struct {
	status provider.WCStatus
	vendor uint32
}

// statuses maps the adapter's statuses (enum erdma_wc_status) as liberdma and the kernel do. The
// reasons are enum erdma_vendor_err. An unknown status is a general error.
var statuses = func() (s [256]status) {
	for i := range s {
		s[i] = status{provider.WCGeneralErr, 0}
	}
	copy(s[:], []status{
		0:  {provider.WCSuccess, 0},
		1:  {provider.WCGeneralErr, 0},
		2:  {provider.WCGeneralErr, 1},      // The receive is malformed.
		3:  {provider.WCRemAccessErr, 2},    // Invalid key of a receive.
		4:  {provider.WCRemAccessErr, 3},    // Address of a receive.
		5:  {provider.WCRemAccessErr, 4},    // Rights of a receive.
		6:  {provider.WCRemAccessErr, 5},    // PD of a receive.
		7:  {provider.WCRemAccessErr, 6},    // A receive wraps around the address space.
		8:  {provider.WCLocQPOpErr, 0x20},   // The request is malformed.
		9:  {provider.WCGeneralErr, 0x21},   // No READ may be outstanding.
		10: {provider.WCLocAccessErr, 0x30}, // Invalid key of a request.
		11: {provider.WCLocAccessErr, 0x31}, // Address of a request.
		12: {provider.WCLocAccessErr, 0x32}, // Rights of a request.
		13: {provider.WCLocAccessErr, 0x33}, // PD of a request.
		14: {provider.WCLocAccessErr, 0x34}, // A request wraps around the address space.
		15: {provider.WCWRFlushErr, 0},
		16: {provider.WCRetryExcErr, 0},
	})
	return s
}()
