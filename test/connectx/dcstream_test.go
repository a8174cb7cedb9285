// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"testing"

	"purerdma/test/connectx/prm"
)

// TestDCStreams fails two streams of an initiator, which fails with the second.
func TestDCStreams(t *testing.T) {
	f := NewFabric()
	a, b := newHost(t, f, 1), newHost(t, f, 2)
	const key = 0xdc0000000001
	target := uint32(prm.ObjectOut.Number.Get(b.must(prm.OpCreateDCT, 0x50, nil, func(in []byte) {
		c := prm.DCTIn.Context.Of(in)
		prm.DCTC.PD.Set(c, uint64(b.pd))
		prm.DCTC.CQN.Set(c, uint64(b.cq(4, nil).n))
		prm.DCTC.SRQN.Set(c, uint64(b.srq().n))
		prm.DCTC.AccessKey.Set(c, key)
		prm.DCTC.RemoteWrite.Set(c, 1)
	})))
	dci := a.qp(prm.ServiceDCI, a.cq(4, nil), a.cq(4, nil), func(c []byte) {
		prm.QPC.RQType.Set(c, prm.RQNone)
		prm.QPC.LogDCIStreams.Set(c, 2) // and one may fail
	})
	dci.connect(0, [16]byte{}, nil)
	dst := b.alloc(64)
	p := &pair{a: a, b: b}
	for i, tc := range []struct {
		stream uint64
		rkey   uint32
		want   prm.Syndrome
	}{
		{1, b.key, prm.SyndromeNone}, {2, b.key ^ 1<<8, prm.SyndromeRemoteAccess}, {1, b.key, prm.SyndromeNone}, {2, b.key, prm.SyndromeFlush},
		{3, b.key, prm.SyndromeNone}, {3, b.key ^ 1<<8, prm.SyndromeRemoteAccess}, {1, b.key, prm.SyndromeFlush},
	} {
		w := request1(prm.WQEWrite, signaled, 0).av(b.gid, target, key).remote(dst, tc.rkey).inline([]byte("x"))
		prm.Ctrl.Stream.Set(w.b, tc.stream)
		dci.post(w)
		e := p.completion(dci.send)
		got := prm.Syndrome(prm.CQE.Syndrome.Get(e))
		if prm.CQE.Opcode.Get(e) == prm.CQEReq {
			got = prm.SyndromeNone
		}
		if got != tc.want {
			t.Errorf("request %d, of stream %d: syndrome %#x, want %#x", i, tc.stream, got, tc.want)
		}
	}
}
