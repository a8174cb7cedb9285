// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"bytes"
	"errors"
	"testing"

	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
)

func TestXRC(t *testing.T) {
	r := newSendRig(t, nil)
	cfg := r.config(provider.XRCSend)
	cfg.RecvCQ = nil
	q, dev := r.qp(cfg)
	if dev.Create.RQWQECount != 0 || q.Cap().RecvWR != 0 {
		t.Errorf("receives of CREATE_QP = %d, want 0", dev.Create.RQWQECount)
	}
	xrc := join(words(0x901), stale(3))
	remote := words(0x7f00, 0x10, 0xabcd, 0)
	data := words(8, 0x99, 0x11223344, 0x55667788)
	for _, tc := range []struct {
		wr     provider.SendWR
		blocks uint32
		want   func(num uint32, cur uint16) []byte
	}{
		{provider.SendWR{Opcode: provider.OpSendImm, ImmData: 7, SGList: sge(8)}, 1, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 0xb, num, 3, 0, 7), xrc, data)
		}},
		{provider.SendWR{Opcode: provider.OpWrite, SGList: sge(8)}, 1, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 8, num, 4, 0, 0), xrc, remote, data)
		}},
		{provider.SendWR{Opcode: provider.OpCompareSwap, CompareAdd: 5, Swap: 6, SGList: sge(64)}, 2, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 0x11, num, 5, 0, 0), xrc, remote, words(0, 6, 0, 5), data)
		}},
		{provider.SendWR{Opcode: provider.OpFetchAdd, CompareAdd: 5, SGList: sge(8)}, 2, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 0x12, num, 5, 0, 0), xrc, remote, words(0, 5), stale(2), data)
		}},
		{provider.SendWR{Opcode: provider.OpWrite, InlineData: bytes.Repeat([]byte{0xab}, 13)}, 2, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 8, num, 5, 0, 0), xrc, remote, words(1<<31|13), bytes.Repeat([]byte{0xab}, 13))
		}},
		{provider.SendWR{Opcode: provider.OpLocalInv, InvalidateRKey: 3}, 2, func(num uint32, cur uint16) []byte {
			return join(ctrl(cur, 0x25, num, 8, 0, 3), words(0x98000000, 0, 0, 1<<29|1<<13|1<<14))
		}},
	} {
		wr := tc.wr
		wr.RemoteSRQN, wr.RemoteAddr, wr.RKey = 0x901, 0x7f00_0000_0010, 0xabcd
		t.Run(wr.Opcode.String(), func(t *testing.T) { everywhere(t, r, q, dev, tc.blocks, wr, tc.want) })
	}
}

// TestXRCDomain creates the receiving side, which is a QP without queues, CQs and a register.
func TestXRCDomain(t *testing.T) {
	for name, legacy := range map[string]bool{"UAR objects": false, "legacy": true} {
		t.Run(name, func(t *testing.T) { testXRCDomain(t, newSendRig(t, func(k *mlx5test.Kernel) { k.LegacyUAR = legacy })) })
	}
}

func testXRCDomain(t *testing.T, r *sendRig) {
	x, err := r.ctx.OpenXRCD(-1, 0)
	if err != nil {
		t.Fatalf("Context.OpenXRCD(-1, 0): %v", err)
	}
	q, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.XRCRecv, XRCD: x})
	if err != nil {
		t.Fatalf("Context.CreateQP: %v", err)
	}
	if q.Cap() != (provider.QPCap{}) {
		t.Errorf("Cap() = %+v, want zero", q.Cap())
	}
	if err := x.Close(); err == nil {
		t.Error("Close of a domain with a QP succeeded")
	}
	if err := q.Close(); err != nil {
		t.Errorf("QP.Close: %v", err)
	}
	if err := x.Close(); err != nil {
		t.Errorf("XRCD.Close: %v", err)
	}
	if _, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.XRCRecv}); err == nil {
		t.Error("CreateQP of type XRC_RECV without a domain succeeded")
	}
}

func TestXRCSRQ(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	x, err := r.ctx.OpenXRCD(-1, 0)
	if err != nil {
		t.Fatalf("Context.OpenXRCD(-1, 0): %v", err)
	}
	t.Cleanup(func() { x.Close() })
	cq, dev := r.newCQ(provider.CQConfig{Entries: 15})
	s := r.srq(provider.SRQConfig{MaxWR: 10, MaxSGE: 2, XRCD: x, CQ: cq})
	var _ provider.XRCSRQ = s
	if s.index == noIndex || r.k.SRQs()[0].Create.UIdx != s.index || r.k.SRQs()[0].Num != s.Num() {
		t.Fatalf("user index = %d, want a valid one, as in CREATE_SRQ", s.index)
	}
	r.cq, r.dev = cq, dev
	q := r.qp(provider.RC, nil)
	for i := range uint64(30) {
		// The QP belongs to another process, so only its number is known.
		e := &mlx5test.CQE{Opcode: mlx5test.CQERespSend, UserIndex: s.index, QPN: 0x777, WQECounter: r.postSRQ(s, i), ByteCount: 9}
		r.put(e, q.sendCQE(q.sendPosted(i, 0), opcodeSend))
		want := provider.WC{ID: i, Opcode: provider.WCRecv, QPNum: 0x777, ByteLen: 9}
		if wcs := r.poll(); len(wcs) != 2 || wcs[0] != want || wcs[1].ID != i || wcs[1].QPNum != q.num {
			t.Fatalf("completions = %+v, want %+v and one of the sender", wcs, want)
		}
	}
	// Close removes the SRQ's completions from the CQ.
	r.put(&mlx5test.CQE{Opcode: mlx5test.CQERespSend, UserIndex: s.index, WQECounter: r.postSRQ(s, 1)}, q.sendCQE(q.sendPosted(5, 0), opcodeSend))
	if err := s.Close(); err != nil {
		t.Fatalf("SRQ.Close: %v", err)
	}
	if wc := r.one(); wc.ID != 5 {
		t.Errorf("cqRig.one() = %+v, want ID 5", wc)
	}
	if _, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: 3, XRCD: x}); !errors.Is(err, errOtherDriver) {
		t.Errorf("CreateSRQ without a CQ = %v, want %v", err, errOtherDriver)
	}
	r.put(&mlx5test.CQE{Opcode: mlx5test.CQEReq, UserIndex: s.index})
	if n, err := cq.Poll(make([]provider.WC, 1)); n != 0 || err != nil || cq.Skipped() != 1 {
		t.Errorf("Poll of a completion of a closed SRQ = %d, %v, and Skipped() = %d, want 0, nil and 1", n, err, cq.Skipped())
	}
}

// TestRequestOfXRCSRQ polls a completion of a send request that names an SRQ.
func TestRequestOfXRCSRQ(t *testing.T) {
	for _, op := range []uint8{mlx5test.CQEReq, mlx5test.CQEReqErr} {
		r := newStrictRig(t, provider.CQConfig{})
		x, err := r.ctx.OpenXRCD(-1, 0)
		if err != nil {
			t.Fatalf("Context.OpenXRCD(-1, 0): %v", err)
		}
		s := r.srq(provider.SRQConfig{MaxWR: 10, XRCD: x, CQ: r.cq})
		r.put(&mlx5test.CQE{Opcode: op, UserIndex: s.index, WQECounter: r.postSRQ(s, 1)})
		_, err = r.cq.Poll(make([]provider.WC, 1))
		if bad := new(CQEError); !errors.As(err, &bad) {
			t.Errorf("Poll of opcode %d = %v, want a CQEError", op, err)
		}
	}
}
