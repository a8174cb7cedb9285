// SPDX-License-Identifier: Apache-2.0

package rxe

import (
	"purerdma/abi"
	"purerdma/provider"
)

// opset is a set of send opcodes.
type opset uint32

func newOpset(ops ...provider.SendOpcode) opset {
	var s opset
	for _, op := range ops {
		s |= 1 << op
	}
	return s
}

// reads is the set of opcodes that MaxRdAtomic bounds.
var reads = newOpset(provider.OpRead, provider.OpCompareSwap, provider.OpFetchAdd)

func (s opset) has(op provider.SendOpcode) bool { return s>>op&1 != 0 }

// opcodes lists the operations that rxe executes on each type of queue pair
// (drivers/infiniband/sw/rxe/rxe_opcode.c and rxe_req.c).
var opcodes = [...]opset{
	provider.RC: newOpset(provider.OpSend, provider.OpSendImm, provider.OpSendInv, provider.OpWrite, provider.OpWriteImm, provider.OpRead,
		provider.OpCompareSwap, provider.OpFetchAdd, provider.OpBindMW, provider.OpLocalInv),
	provider.UC: newOpset(provider.OpSend, provider.OpSendImm, provider.OpWrite, provider.OpWriteImm, provider.OpBindMW, provider.OpLocalInv),
	provider.UD: newOpset(provider.OpSend, provider.OpSendImm),
}

// newer lists the opcodes of reliable connections that not every rxe has, with the capability that
// announces them.
var newer = [...]struct {
	capability uint64
	op         provider.SendOpcode
}{
	{abi.IB_UVERBS_DEVICE_FLUSH_GLOBAL | abi.IB_UVERBS_DEVICE_FLUSH_PERSISTENT, provider.OpFlush},
	{abi.IB_UVERBS_DEVICE_ATOMIC_WRITE, provider.OpAtomicWrite},
}

// opcodesOf returns the operations of a queue pair of a type on a device with these capabilities.
func opcodesOf(typ provider.QPType, caps uint64) (ops opset, ok bool) {
	if int(typ) < len(opcodes) {
		ops = opcodes[typ]
	}
	if typ == provider.RC {
		for _, n := range newer {
			if caps&n.capability != 0 {
				ops |= newOpset(n.op)
			}
		}
	}
	return ops, ops != 0
}
