// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestVMSharedReceives has two QPs of one PD receive from one SRQ.
func TestVMSharedReceives(t *testing.T) {
	fullRoutes(t, func(t *testing.T, rt *route) {
		_, pd := openPD(t, rt.h, rt.b.Device)
		srq, err := pd.CreateSRQ(verbs.SRQConfig{MaxWR: 20, MaxSGE: 3})
		if err != nil {
			t.Fatalf("PD.CreateSRQ: %v", err)
		}
		closer(t, srq)
		mr, err := pd.Alloc(1<<16, everything)
		if err != nil {
			t.Fatalf("PD.Alloc: %v", err)
		}
		closer(t, mr)
		if a := srq.Attr(); a.MaxWR < 20 || a.MaxSGE < 3 {
			t.Errorf("Attr() = %+v, want at least 20 receives of 3 elements", a)
		}
		var wrs []verbs.RecvWR
		for i := range 8 {
			wrs = append(wrs, verbs.RecvWR{ID: 100 + uint64(i), SGList: []verbs.SGE{mr.Slice(i*64, 16), mr.Slice(i*64+32, 16)}})
		}
		if n, err := srq.PostRecv(wrs); n != len(wrs) || err != nil {
			t.Fatalf("SRQ.PostRecv = %d, %v, want %d, nil", n, err, len(wrs))
		}
		for i := range 2 {
			l := newEnd(t, rt.h, rt.a, verbs.QPCap{})
			r := newEndWith(t, rt.h, rt.b, verbs.QPConfig{SRQ: srq})
			connect(t, l, r)
			if r.qp.SRQ() != srq || r.qp.Cap().RecvWR != 0 {
				t.Errorf("SRQ(), Cap() = %v, %+v, want the SRQ and no receives", r.qp.SRQ(), r.qp.Cap())
			}
			if _, err := r.qp.PostRecv(wrs); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("PostRecv to a QP with an SRQ = %v, want EINVAL", err)
			}
			for range 4 {
				l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: []byte("sixteen and four....")})
				l.ok(t, 1)
			}
			got := r.ok(t, 4)
			for k := range uint64(4) {
				wc, ok := got[100+4*uint64(i)+k]
				if !ok || wc.QPNum != r.qp.Num() || wc.ByteLen != 20 {
					t.Fatalf("QP %d: completions = %+v, want the next receive with 20 bytes", i, got)
				}
			}
		}
		for i := range 8 {
			if b := mr.Bytes()[i*64:]; string(b[:16]) != "sixteen and four" || string(b[32:36]) != "...." {
				t.Errorf("bytes of message %d = %q, want 16 bytes and 4 bytes", i, b[:40])
			}
		}
		if _, err := srq.PostRecv([]verbs.RecvWR{{SGList: make([]verbs.SGE, 40)}}); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("PostRecv of 40 elements = %v, want EINVAL", err)
		}
		if n, err := srq.PostRecv(make([]verbs.RecvWR, srq.Attr().MaxWR+1)); n != srq.Attr().MaxWR || !errors.Is(err, verbs.ErrFull) {
			t.Errorf("PostRecv of too many = %d, %v, want %d, ErrFull", n, err, srq.Attr().MaxWR)
		}
	})
}

// TestVMSRQModify resizes an SRQ with posted receives, and sets its limit.
func TestVMSRQModify(t *testing.T) {
	fullRoutes(t, func(t *testing.T, rt *route) {
		_, pd := openPD(t, rt.h, rt.b.Device)
		srq, err := pd.CreateSRQ(verbs.SRQConfig{MaxWR: 10})
		if err != nil {
			t.Fatalf("PD.CreateSRQ: %v", err)
		}
		closer(t, srq)
		l := newEnd(t, rt.h, rt.a, verbs.QPCap{})
		r := newEndWith(t, rt.h, rt.b, verbs.QPConfig{SRQ: srq})
		connect(t, l, r)
		post := func(ids ...uint64) {
			t.Helper()
			for _, id := range ids {
				if n, err := srq.PostRecv([]verbs.RecvWR{{ID: id}}); n != 1 || err != nil {
					t.Fatalf("SRQ.PostRecv = %d, %v, want 1, nil", n, err)
				}
			}
		}
		take := func(ids ...uint64) {
			t.Helper()
			for range ids {
				l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled})
				l.ok(t, 1)
			}
			got := r.ok(t, len(ids))
			for _, id := range ids {
				if _, ok := got[id]; !ok {
					t.Fatalf("receive %d is missing in %+v", id, got)
				}
			}
		}
		post(1, 2, 3, 4, 5)
		take(1, 2)
		if err := srq.Modify(verbs.SRQAttr{MaxWR: 100}, verbs.SRQAttrMaxWR); rt.mlx5 || vmtest.Driver() == "bnxt_re" {
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("Modify(MaxWR 100) on mlx5 or bnxt_re = %v, want ErrUnsupported", err)
			}
		} else if err != nil {
			t.Fatalf("SRQ.Modify(MaxWR 100): %v", err)
		} else if a := srq.Attr(); a.MaxWR < 100 {
			t.Errorf("Attr() = %+v, want at least 100 receives", a)
		}
		post(6, 7)
		take(3, 4, 5, 6, 7)
		post(8, 9, 10, 11) // with fewer receives than the limit, a card reports the limit at once and clears it
		if err := srq.Modify(verbs.SRQAttr{Limit: 3}, verbs.SRQAttrLimit); err != nil {
			t.Fatalf("SRQ.Modify(Limit 3): %v", err)
		}
		if a, err := srq.Query(); err != nil || a.Limit != 3 || a.MaxWR < srq.Attr().MaxWR {
			t.Errorf("Query = %+v, %v, want Limit 3", a, err)
		}
		if err := srq.Modify(verbs.SRQAttr{Limit: -1}, verbs.SRQAttrLimit); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Modify(Limit -1) = %v, want EINVAL", err)
		}
		if err := srq.Modify(verbs.SRQAttr{MaxWR: 1 << 30}, verbs.SRQAttrMaxWR); err == nil {
			t.Error("Modify with a size beyond the device's limit succeeded")
		}
		take(8)
		if err := r.qp.Close(); err != nil {
			t.Fatalf("QP.Close: %v", err)
		}
		if err := srq.Close(); err != nil {
			t.Fatalf("SRQ.Close: %v", err)
		}
		if _, err := srq.PostRecv([]verbs.RecvWR{{}}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("PostRecv to a closed SRQ = %v, want net.ErrClosed", err)
		}
		if err := srq.Modify(verbs.SRQAttr{Limit: 1}, verbs.SRQAttrLimit); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Modify of a closed SRQ = %v, want net.ErrClosed", err)
		}
	})
}
