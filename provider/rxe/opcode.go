// SPDX-License-Identifier: Apache-2.0

package rxe

import "purerdma/provider"

// opset is a set of send opcodes.
type opset uint32

func newOpset(ops ...provider.SendOpcode) opset {
	var s opset
	for _, op := range ops {
		s |= 1 << op
	}
	return s
}

func (s opset) has(op provider.SendOpcode) bool { return s>>op&1 != 0 }

// opcodes are what rxe carries out on each type of queue pair
// (drivers/infiniband/sw/rxe/rxe_opcode.c and rxe_req.c).
var opcodes = map[provider.QPType]opset{
	provider.RC: newOpset(provider.OpSend, provider.OpSendImm, provider.OpSendInv, provider.OpWrite, provider.OpWriteImm, provider.OpRead,
		provider.OpCompareSwap, provider.OpFetchAdd),
	provider.UC: newOpset(provider.OpSend, provider.OpSendImm, provider.OpWrite, provider.OpWriteImm),
	provider.UD: newOpset(provider.OpSend, provider.OpSendImm),
}
