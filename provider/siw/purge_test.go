// SPDX-License-Identifier: Apache-2.0

//go:build linux

package siw

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
)

// ids returns the work request IDs of wcs.
func ids(wcs []provider.WC) []uint64 {
	var got []uint64
	for _, wc := range wcs {
		got = append(got, wc.ID)
	}
	return got
}

// create creates one more QP on the rig's CQ.
func (r *rig) create() (*qp, error) {
	q, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: r.cq, RecvCQ: r.cq, Cap: provider.QPCap{SendWR: 4, RecvWR: 4}})
	if err != nil {
		return nil, err
	}
	r.t.Cleanup(func() { q.Close() })
	return q.(*qp), nil
}

// TestClosedQP closes a QP that has left completions in a CQ, between completions of another
// QP. The next QP has the same number.
func TestClosedQP(t *testing.T) {
	r := newRig(t, 4)
	r.num = 0x99
	other, err := r.create()
	if err != nil {
		t.Fatalf("rig.create: %v", err)
	}
	r.num = 0x77
	other.SetState(provider.QPRTS)
	r.qp.SetState(provider.QPRTS)
	for i := range uint64(5) { // start in the middle of the ring
		r.complete(abi.SiwCQE{ID: i})
	}
	r.poll(9)

	r.complete(abi.SiwCQE{ID: 10})
	r.complete(abi.SiwCQE{ID: 20, QPID: 0x99, Opcode: abi.SIW_OP_RECEIVE, Bytes: 9})
	r.complete(abi.SiwCQE{ID: 11})
	// Completions that the provider adds itself, for both QPs.
	for id, q := range []*qp{r.qp, other} {
		q.SetState(provider.QPErr)
		if n, err := q.PostRecv([]provider.RecvWR{{ID: 12 + 9*uint64(id)}}); n != 1 || err != nil {
			t.Fatalf("qp.PostRecv = %d, %v, want 1, nil", n, err)
		}
	}
	r.complete(abi.SiwCQE{ID: 13})
	r.complete(abi.SiwCQE{ID: 22, QPID: 0x99})
	// The kernel flushes while it destroys a QP.
	r.destroy = func() error {
		r.complete(abi.SiwCQE{ID: 14, Status: abi.SIW_WC_WR_FLUSH_ERR})
		return nil
	}
	if err := r.qp.Close(); err != nil {
		t.Fatalf("qp.Close: %v", err)
	}
	r.destroy = nil
	if _, err := r.create(); err != nil {
		t.Fatalf("rig.create: %v", err)
	}
	r.complete(abi.SiwCQE{ID: 30})
	wcs := r.poll(2)
	if wcs[0] != (provider.WC{ID: 20, Opcode: provider.WCRecv, QPNum: 0x99, ByteLen: 9}) {
		t.Errorf("completion = %+v, want receive 20 of QP 0x99 with 9 bytes", wcs[0])
	}
	// The slots of the removed completions are free immediately and permanently.
	for i := range uint64(r.cq.Entries() - 1) {
		r.complete(abi.SiwCQE{ID: 31 + i})
	}
	want := []uint64{20, 21, 22}
	for i := range uint64(r.cq.Entries()) {
		want = append(want, 30+i)
	}
	if got := ids(append(wcs, r.poll(99)...)); !slices.Equal(got, want) {
		t.Errorf("completed IDs = %v, want %v", got, want)
	}
}

// TestClosedQPOfTwoCQs closes a QP with two CQs, both of which have completions of it.
func TestClosedQPOfTwoCQs(t *testing.T) {
	r := newRig(t, 4)
	second, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 8})
	if err != nil {
		t.Fatalf("Context.CreateCQ: %v", err)
	}
	t.Cleanup(func() { second.Close() })
	r.num = 0x55
	q, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: r.cq, RecvCQ: second, Cap: provider.QPCap{SendWR: 4, RecvWR: 4}})
	if err != nil {
		t.Fatalf("Context.CreateQP: %v", err)
	}
	r.complete(abi.SiwCQE{ID: 1, QPID: 0x55})
	r.complete(abi.SiwCQE{ID: 2})
	q.SetState(provider.QPErr)
	if n, err := q.PostRecv([]provider.RecvWR{{ID: 3}, {ID: 4}}); n != 2 || err != nil {
		t.Fatalf("QP.PostRecv = %d, %v, want 2, nil", n, err)
	}
	if err := q.Close(); err != nil {
		t.Fatalf("QP.Close: %v", err)
	}
	if got := ids(r.poll(9)); !slices.Equal(got, []uint64{2}) {
		t.Errorf("IDs in the send CQ = %v, want 2", got)
	}
	if n, err := second.Poll(make([]provider.WC, 9)); n != 0 || err != nil {
		t.Errorf("Poll of the receive CQ = %d, %v, want 0, nil", n, err)
	}
}

// TestNotClosed checks that the completions of a QP remain if the kernel does not destroy it.
func TestNotClosed(t *testing.T) {
	r := newRig(t, 4)
	r.complete(abi.SiwCQE{ID: 1})
	r.destroy = func() error { return syscall.EPERM }
	if err := r.qp.Close(); !errors.Is(err, syscall.EPERM) {
		t.Fatalf("qp.Close() = %v, want EPERM", err)
	}
	r.destroy = nil
	if got := ids(r.poll(9)); !slices.Equal(got, []uint64{1}) {
		t.Errorf("completed IDs = %v, want 1", got)
	}
}
