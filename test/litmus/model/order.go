// SPDX-License-Identifier: Apache-2.0

package model

// between reports whether holds is true for an operation between the events a and b of a thread.
func (x *execution) between(a, b event, holds func(Op) bool) bool {
	for i := a.op + 1; i < b.op; i++ {
		if holds(x.threads[a.thread].Ops[i]) {
			return true
		}
	}
	return false
}

func (x *execution) opOf(e event) Op { return x.threads[e.thread].Ops[e.op] }

// orderedAMD64 reports whether the event a of a thread stays before its event b on amd64. Only a
// store may become visible late, after a later load. Stores to combining memory have no
// order with other stores. A Swap is a locked instruction, which is a full barrier.
func (x *execution) orderedAMD64(a, b event) bool {
	if x.opOf(a).Kind == Swap || x.opOf(b).Kind == Swap {
		return true
	}
	if x.between(a, b, func(op Op) bool { return op.Kind == Swap || op.Kind == Fence && op.Fence == MFENCE }) {
		return true
	}
	switch {
	case !a.write:
		return true
	case !b.write:
		return false
	case x.opOf(a).Combining || x.opOf(b).Combining:
		return x.between(a, b, func(op Op) bool { return op.Kind == Fence && op.Fence == SFENCE })
	}
	return true
}

// orderedARM64 reports whether the event a of a thread stays before its event b on arm64. A Swap
// is no barrier by itself, because without the instructions of Armv8.1 it is a loop.
func (x *execution) orderedARM64(a, b event) bool {
	opA, opB := x.opOf(a), x.opOf(b)
	if opA.Combining || opB.Combining {
		return a.write && b.write && x.between(a, b, func(op Op) bool { return op.Kind == Fence && op.Fence == DSBST })
	}
	acquire := !a.write && opA.Acquire
	release := b.write && opB.Release
	if acquire || release || a.write && opA.Release && !b.write && opB.Acquire {
		return true
	}
	return x.between(a, b, func(op Op) bool {
		if op.Kind == If {
			return !a.write && b.write && op.Reg == opA.Reg
		}
		return op.Kind == Fence && x.orders(op.Fence, a, b)
	})
}

// orders reports whether a fence of arm64 orders a with b.
func (x *execution) orders(f FenceKind, a, b event) bool {
	switch f {
	case DMBISH:
		return !x.device
	case DMBISHST:
		return !x.device && a.write && b.write
	case DMBISHLD:
		return !x.device && !a.write
	case DMBOSHST, DSBST:
		return a.write && b.write
	}
	return false
}
