// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"testing"

	"purerdma/provider"
	"purerdma/provider/mlx5"
	"purerdma/verbs"
)

// TestVendor sends over a transport that only one vendor has, with objects of this
// package: what Provider is for.
func TestVendor(t *testing.T) { mlx5Routes(t, testVendor) }

func testVendor(t *testing.T, rt *route) {
	l, r := newEnd(t, rt.h, rt.a, verbs.QPCap{}), newEnd(t, rt.h, rt.b, verbs.QPCap{})
	srq, err := r.pd.CreateSRQ(verbs.SRQConfig{})
	if err != nil {
		t.Fatal(err)
	}
	closer(t, srq)
	dct, err := r.dev.Provider().(*mlx5.Context).CreateDCT(&mlx5.DCTConfig{PD: r.pd.Provider(), CQ: r.cq.Provider(), SRQ: srq.Provider(), Key: 0xbeef})
	if err != nil {
		t.Fatal(err)
	}
	closer(t, dct)
	dci, err := l.dev.Provider().(*mlx5.Context).CreateDCI(&mlx5.DCIConfig{PD: l.pd.Provider(), CQ: l.cq.Provider(), Cap: verbs.QPCap{SendWR: 4, SendSGE: 1}})
	if err != nil {
		t.Fatal(err)
	}
	closer(t, dci)
	move := func(q *mlx5.QP, a verbs.QPAttr, mask verbs.QPAttrMask) {
		t.Helper()
		if err := q.Modify(&a, mask|verbs.QPAttrState); err != nil {
			t.Fatal(err)
		}
	}
	move(dct, verbs.QPAttr{State: verbs.QPInit, Port: 1, Access: everything}, verbs.QPAttrPKeyIndex|verbs.QPAttrPort|verbs.QPAttrAccess)
	move(dct, verbs.QPAttr{State: verbs.QPRTR, PathMTU: verbs.MTU1024, MinRNRTimer: 12, AH: r.to(l.gid)}, verbs.QPAttrAV|verbs.QPAttrPathMTU|verbs.QPAttrMinRNRTimer)
	move(dci, verbs.QPAttr{State: verbs.QPInit, Port: 1}, verbs.QPAttrPKeyIndex|verbs.QPAttrPort)
	move(dci, verbs.QPAttr{State: verbs.QPRTR, PathMTU: verbs.MTU1024, AH: l.to(r.gid)}, verbs.QPAttrPathMTU|verbs.QPAttrAV)
	move(dci, verbs.QPAttr{State: verbs.QPRTS, Timeout: 14, RetryCount: 7, RNRRetryCount: 7, MaxRdAtomic: 4},
		verbs.QPAttrTimeout|verbs.QPAttrRetryCount|verbs.QPAttrRNRRetryCount|verbs.QPAttrMaxRdAtomic|verbs.QPAttrSQPSN)
	if _, err := srq.PostRecv([]verbs.RecvWR{{ID: 9, SGList: []verbs.SGE{r.buf.Slice(0, 64)}}}); err != nil {
		t.Fatal(err)
	}
	ah, err := l.pd.CreateAH(l.to(r.gid))
	if err != nil {
		t.Fatal(err)
	}
	closer(t, ah)
	copy(l.buf.Bytes(), "to whom it concerns")
	wr := mlx5.DCWR{Key: 0xbeef, SendWR: provider.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: ah, RemoteQPN: dct.Num(), SGList: []verbs.SGE{l.buf.Slice(0, 64)}}}
	if n, err := dci.PostDC([]mlx5.DCWR{wr}); n != 1 || err != nil {
		t.Fatalf("PostDC: %d, %v", n, err)
	}
	l.ok(t, 1)
	if got := r.ok(t, 1)[9]; got.ByteLen != 64 || got.QPNum != dct.Num() || string(r.buf.Bytes()[:19]) != "to whom it concerns" {
		t.Errorf("received %+v, %q", got, r.buf.Bytes()[:19])
	}
}
