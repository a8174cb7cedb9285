// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"purerdma/abi"
	"purerdma/verbs"
)

func checkRights(t *trial) {
	for _, c := range []struct {
		what   string
		access verbs.Access
		other  bool // on another PD
		op     verbs.SendOpcode
	}{
		{"WRITE to memory without RemoteWrite", verbs.LocalWrite | verbs.RemoteRead, false, verbs.OpWrite},
		{"READ of memory without RemoteRead", verbs.LocalWrite | verbs.RemoteWrite, false, verbs.OpRead},
		{"WRITE to memory of another PD", rights(t.dev), true, verbs.OpWrite},
		{"READ of memory of another PD", rights(t.dev), true, verbs.OpRead},
	} {
		l := t.link(Config{})
		pd := l.pd
		if c.other {
			var err error
			pd, err = l.dev.AllocPD()
			t.must("allocate a PD", err)
			t.later(pd.Close)
		}
		mr, err := pd.Alloc(4096, c.access)
		t.must("register", err)
		t.later(mr.Close)
		copy(mr.Bytes(), guards(4096))
		l.store(0, make([]byte, 8))
		l.farPost(PlainWR{ID: 1, Opcode: c.op, Flags: verbs.SendSignaled, RemoteAddr: mr.Addr(), RKey: mr.RKey()}, piece{0, 8})
		l.wantStatus(c.what, l.farWait(true, 1)[0], verbs.WCRemAccessErr)
		l.same(c.what+": the memory", mr.Bytes(), guards(4096))
		l.same(c.what+": the memory of the far end", l.load(0, 8), make([]byte, 8))
	}
}

// checkQPRights uses memory whose region permits everything through a QP that permits nothing.
func checkQPRights(t *trial) {
	admits := t.knownFault(abi.RDMA_DRIVER_BNXT_RE, "the rights of a QP do not exclude READs and WRITEs")
	for _, op := range []verbs.SendOpcode{verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead, verbs.OpFetchAdd, verbs.OpCompareSwap} {
		atomic := op == verbs.OpFetchAdd || op == verbs.OpCompareSwap
		if op == verbs.OpWriteImm && !t.features.Immediate || atomic && !t.features.Atomics || !atomic && admits {
			continue
		}
		l := t.link(Config{NoRemote: true})
		l.store(0, guards(4096))
		if op == verbs.OpWriteImm {
			l.farRecv(1)
		}
		wr := l.write(piece{0, 8}, 0)
		wr.Opcode = op
		// The specification has the first status for operations that a QP does not support.
		l.fails(opName(op)+" to a QP that does not permit it", wr, verbs.WCRemInvReqErr, verbs.WCRemAccessErr)
		l.same("memory behind a QP that permits nothing", l.load(0, 4096), guards(4096))
	}
}
