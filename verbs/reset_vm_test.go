// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"testing"

	"purerdma/verbs"
)

// TestVMResetAfterFlush moves a QP to RESET right after the completion of a flushed request, many times. On rxe the
// QP may be in ERR again (docs/reference/driver-faults.md). A second RESET then succeeds.
func TestVMResetAfterFlush(t *testing.T) {
	l, r := vmWire(t).pair(t, verbs.QPCap{})
	again := 0
	for i := range uint64(300) {
		modify(t, l.qp, verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
		l.recv(t, verbs.RecvWR{ID: 1000 + i})
		l.send(t, verbs.SendWR{ID: i, Opcode: verbs.OpSend, SGList: []verbs.SGE{l.buf.Slice(0, 8)}})
		if wc := l.collect(t, 2)[i]; wc.Status != verbs.WCWRFlushErr {
			t.Fatalf("completion of request %d = %+v, want WCWRFlushErr", i, wc)
		}
		if l.reset(t) {
			again++
		}
		l.connectTo(t, r)
	}
	t.Logf("%d of 300 QPs were in ERR after the first RESET", again)
}
