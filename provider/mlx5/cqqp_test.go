// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"testing"

	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
	"purerdma/test/connectx/prm"
)

// madeQP creates a QP in the kernel, and moves it to RTS.
func (r *cqRig) madeQP(cfg provider.QPConfig) (*QP, *mlx5test.QP) {
	r.t.Helper()
	cfg.Type, cfg.PD, cfg.SendCQ, cfg.RecvCQ = provider.RC, r.pd, r.cq, r.cq
	cfg.Cap = provider.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 1, RecvSGE: 1}
	q, err := r.ctx.CreateQP(&cfg)
	if err != nil {
		r.t.Fatalf("Context.CreateQP: %v", err)
	}
	r.t.Cleanup(func() {
		if err := q.Close(); err != nil {
			r.t.Errorf("QP.Close: %v", err)
		}
	})
	r.connect(q)
	all := r.k.QPs()
	return q.(*QP), all[len(all)-1]
}

// connect moves a QP from RESET to RTS.
func (r *cqRig) connect(q provider.QP) {
	r.t.Helper()
	attr := provider.QPAttr{Port: 1, PathMTU: provider.MTU1024, DestQPNum: q.Num(), MaxRdAtomic: 1, MaxDestRdAtomic: 1,
		AH: provider.AHAttr{Global: true, Port: 1, GRH: provider.GlobalRoute{HopLimit: 1}}}
	for _, step := range []struct {
		state provider.QPState
		mask  provider.QPAttrMask
	}{
		{provider.QPInit, provider.QPAttrPKeyIndex | provider.QPAttrPort | provider.QPAttrAccess},
		{provider.QPRTR, provider.QPAttrAV | provider.QPAttrPathMTU | provider.QPAttrDestQPNum | provider.QPAttrRQPSN | provider.QPAttrMaxDestRdAtomic | provider.QPAttrMinRNRTimer},
		{provider.QPRTS, provider.QPAttrTimeout | provider.QPAttrRetryCount | provider.QPAttrRNRRetryCount | provider.QPAttrSQPSN | provider.QPAttrMaxRdAtomic},
	} {
		attr.State = step.state
		if err := q.Modify(&attr, step.mask|provider.QPAttrState); err != nil {
			r.t.Fatalf("to %v: QP.Modify: %v", step.state, err)
		}
	}
}

func (r *cqRig) send(q *QP, ids ...uint64) {
	r.t.Helper()
	for _, id := range ids {
		if _, err := q.PostSend([]provider.SendWR{{ID: id, Opcode: provider.OpSend, Flags: provider.SendSignaled}}); err != nil {
			r.t.Fatalf("QP.PostSend: %v", err)
		}
	}
}

// TestQPReset checks that a reset removes the completions of a QP and resets its indices.
func TestQPReset(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	q, _ := r.madeQP(provider.QPConfig{})
	other, _ := r.madeQP(provider.QPConfig{})
	for round := range 3 {
		r.send(q, 1, 2, 3)
		r.send(other, 4)
		if n, err := q.PostRecv(make([]provider.RecvWR, 5)); n != 5 {
			t.Fatalf("QP.PostRecv = %d, %v, want 5, nil", n, err)
		}
		r.put(q.sendCQE(0, opcodeSend), other.sendCQE(uint16(round), opcodeSend), q.sendCQE(1, opcodeSend), q.recvCQE(0))
		if round == 1 {
			// Some completions were polled, and the last one was of this QP.
			if _, err := r.cq.Poll(make([]provider.WC, 3)); err != nil {
				t.Fatalf("CQ.Poll: %v", err)
			}
		}
		if err := q.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); err != nil {
			t.Fatalf("QP.Modify: %v", err)
		}
		if round != 1 {
			if wc := r.one(); wc.ID != 4 {
				t.Fatalf("round %d: cqRig.one() = %+v, want ID 4", round, wc)
			}
		} else if wcs := r.poll(); len(wcs) != 0 {
			t.Fatalf("round %d: completions = %+v, want none", round, wcs)
		}
		r.connect(q)
	}
	// The requests of before the reset are no longer in the queues.
	r.put(q.sendCQE(1, opcodeSend))
	if wcs := r.poll(); len(wcs) != 0 || r.cq.Skipped() != 1 {
		t.Errorf("%d completions and Skipped() = %d after a late completion, want 0 and 1", len(wcs), r.cq.Skipped())
	}
}

func TestQPClosed(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	srq := r.srq(provider.SRQConfig{MaxWR: 4})
	q, _ := r.madeQP(provider.QPConfig{SRQ: srq})
	other, _ := r.madeQP(provider.QPConfig{})
	r.send(q, 1)
	r.send(other, 2)
	r.put(q.sendCQE(0, opcodeSend), q.recvCQE(r.postSRQ(srq, 7)), other.sendCQE(0, opcodeSend), q.recvCQE(r.postSRQ(srq, 8)))
	if err := q.Close(); err != nil {
		t.Fatalf("QP.Close: %v", err)
	}
	if srq.list.nfree != 2 {
		t.Errorf("%d receives of the SRQ are free, want 2", srq.list.nfree)
	}
	if wc := r.one(); wc.ID != 2 {
		t.Errorf("cqRig.one() = %+v, want ID 2", wc)
	}
	if r.cq.qp == q || r.ctx.resources.qp(q.index) != nil {
		t.Error("the CQ or the context still has the closed QP")
	}
	r.put(q.sendCQE(0, opcodeSend))
	if wcs := r.poll(); len(wcs) != 0 || r.cq.Skipped() != 1 {
		t.Errorf("%d completions and Skipped() = %d after a late completion, want 0 and 1", len(wcs), r.cq.Skipped())
	}
}

// TestFlush has the device flush the requests in the error state. Some requests are posted
// before the state change, others after it.
func TestFlush(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	q, dev := r.madeQP(provider.QPConfig{})
	r.send(q, 1, 2)
	if _, err := q.PostRecv([]provider.RecvWR{{ID: 3}}); err != nil {
		t.Fatalf("QP.PostRecv([]provider.RecvWR{{ID: 3}}): %v", err)
	}
	if err := q.Modify(&provider.QPAttr{State: provider.QPErr}, provider.QPAttrState); err != nil {
		t.Fatalf("QP.Modify: %v", err)
	}
	r.send(q, 4)
	if _, err := q.PostRecv([]provider.RecvWR{{ID: 5}}); err != nil || dev.RecvCounter() != 2 || dev.SendCounter() != 3 {
		t.Fatalf("PostRecv in ERR: %v with %d sends and %d receives posted, want nil, 3 and 2", err, dev.SendCounter(), dev.RecvCounter())
	}
	for i := range uint16(3) {
		r.put(&mlx5test.CQE{Opcode: mlx5test.CQEReqErr, Syndrome: uint8(prm.SyndromeFlush), UserIndex: q.index, QPN: q.num, WQECounter: i})
	}
	for i := range uint16(2) {
		r.put(&mlx5test.CQE{Opcode: mlx5test.CQERespErr, Syndrome: uint8(prm.SyndromeFlush), UserIndex: q.index, QPN: q.num, WQECounter: i})
	}
	got := map[uint64]int{}
	for _, wc := range r.poll() {
		got[wc.ID]++
		if wc.Status != provider.WCWRFlushErr || wc.QPNum != q.num {
			t.Errorf("completion = %+v, want WCWRFlushErr of QP %#x", wc, q.num)
		}
	}
	for id := range uint64(5) {
		if got[id+1] != 1 {
			t.Errorf("request %d completed %d times, want 1", id+1, got[id+1])
		}
	}
	if q.sq.tail != 3 || q.rq.tail != 2 {
		t.Errorf("tails = %d and %d, want 3 and 2", q.sq.tail, q.rq.tail)
	}
}
