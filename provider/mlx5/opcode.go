// SPDX-License-Identifier: Apache-2.0

package mlx5

import "purerdma/provider"

// operation describes how build writes one opcode into a WQE.
type operation struct {
	code uint8  // the device's opcode
	kind opKind // the segments between the control segment and the data
	fast bool   // build builds it
	imm  uint32 // all ones if the request's ImmData goes into the control segment.
	inv  uint32 // all ones if its InvalidateRKey does
	_    uint32 // 16 bytes, like a provider.Count, so that one offset serves both tables
}

// opKind selects the segments of an operation.
type opKind uint8

const (
	opNone   opKind = iota // the transport does not have it
	opPlain                // none
	opRemote               // an address of the peer
	opRead                 // likewise, without inline data
	opAtomic
	opUMR
	opLSO
)

// operations describes the operations of a transport, by provider.SendOpcode.
type operations [16]operation

const all = ^uint32(0)

// connected are the operations of reliable connections.
var connected = operations{
	provider.OpSend:        {code: opcodeSend, kind: opPlain, fast: true},
	provider.OpSendImm:     {code: opcodeSendImm, kind: opPlain, fast: true, imm: all},
	provider.OpSendInv:     {code: opcodeSendInv, kind: opPlain, fast: true, inv: all},
	provider.OpWrite:       {code: opcodeWrite, kind: opRemote, fast: true},
	provider.OpWriteImm:    {code: opcodeWriteImm, kind: opRemote, fast: true, imm: all},
	provider.OpRead:        {code: opcodeRead, kind: opRead, fast: true},
	provider.OpCompareSwap: {code: opcodeAtomicCS, kind: opAtomic},
	provider.OpFetchAdd:    {code: opcodeAtomicFA, kind: opAtomic},
	provider.OpBindMW:      {code: opcodeUMR, kind: opUMR},
	provider.OpLocalInv:    {code: opcodeUMR, kind: opUMR},
}

// unreliable describes the operations of unreliable connections, which get no responses.
var unreliable = operations{
	provider.OpSend:     connected[provider.OpSend],
	provider.OpSendImm:  connected[provider.OpSendImm],
	provider.OpSendInv:  connected[provider.OpSendInv],
	provider.OpWrite:    connected[provider.OpWrite],
	provider.OpWriteImm: connected[provider.OpWriteImm],
	provider.OpBindMW:   connected[provider.OpBindMW],
	provider.OpLocalInv: connected[provider.OpLocalInv],
}

// datagrams describes the operations of UD.
var datagrams = operations{
	provider.OpSend:    {code: opcodeSend, kind: opPlain},
	provider.OpSendImm: {code: opcodeSendImm, kind: opPlain, imm: all},
}

// packets describes the operations of raw packet QPs.
var packets = operations{
	provider.OpSend: {code: opcodeSend, kind: opPlain},
	provider.OpLSO:  {code: opcodeLSO, kind: opLSO},
}

// withHeader returns the operations for a transport that puts a segment of its own
// before theirs.
func withHeader(ops operations) *operations {
	for i := range ops {
		ops[i].fast = false
	}
	return &ops
}

// withoutAtomics returns the operations for a device that has no atomics.
func (o *operations) withoutAtomics() *operations {
	ops := *o
	for i := range ops {
		if ops[i].kind == opAtomic {
			ops[i] = operation{}
		}
	}
	return &ops
}

// The operations of the other transports: extended reliable connections and, with
// no memory windows, DC initiators.
var (
	extended = withHeader(connected)
	dynamic  = func() *operations {
		ops := withHeader(connected)
		ops[provider.OpBindMW], ops[provider.OpLocalInv] = operation{}, operation{}
		return ops
	}()
)
