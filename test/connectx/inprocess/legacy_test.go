// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inprocess_test

import (
	"testing"

	"purerdma/verbs"
)

// TestLegacy sends, with completion events, on a kernel that assigns register pages like kernels before 5.8.
func TestLegacy(t *testing.T) {
	n := newNet(t, nil)
	n.k.LegacyUAR = true
	a, b := n.pair(verbs.QPCap{SendWR: 64, RecvWR: 64}, patient)
	if u := n.k.QPs()[0].UAR; u.ID == 0 || n.k.CQs()[0].UAR.ID != 0 {
		t.Errorf("register page of the QP = %d and of the CQ = %d, want 0 for the CQ only", u.ID, n.k.CQs()[0].UAR.ID)
	}
	for i := range uint64(32) {
		b.recv(verbs.RecvWR{ID: i, SGList: []verbs.SGE{b.mr.Slice(int(i)*8, 8)}})
		a.send(verbs.SendWR{ID: i, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: []byte{byte(i), 1, 2, 3, 4, 5, 6, 7}})
		if wc := b.wait(1)[0]; wc.Err() != nil || wc.ID != i || b.mr.Bytes()[i*8] != byte(i) {
			t.Fatalf("receive %d = %+v, want success and its data", i, wc)
		}
		if wc := a.wait(1)[0]; wc.Err() != nil || wc.ID != i {
			t.Fatalf("send %d = %+v, want success", i, wc)
		}
	}
}
