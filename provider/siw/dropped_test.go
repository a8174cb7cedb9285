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

// TestDropped closes QPs of an SRQ that have left completions of receives in their CQs. The
// provider reports these receives once.
func TestDropped(t *testing.T) {
	r := newRig(t, 4)
	recvCQ, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 8})
	if err != nil {
		t.Fatalf("Context.CreateCQ: %v", err)
	}
	t.Cleanup(func() { recvCQ.Close() })
	var dropped []uint64
	s, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: 8, MaxSGE: 1, Dropped: func(id uint64) { dropped = append(dropped, id) }})
	if err != nil {
		t.Fatalf("Context.CreateSRQ: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	create := func(num uint32, recv provider.CQ, srq provider.SRQ) *qp {
		t.Helper()
		r.num = num
		q, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: r.cq, RecvCQ: recv, SRQ: srq, Cap: provider.QPCap{SendWR: 4, RecvWR: 4}})
		if err != nil {
			t.Fatalf("Context.CreateQP: %v", err)
		}
		t.Cleanup(func() { q.Close() })
		return q.(*qp)
	}
	first, second, third := create(0x91, r.cq, s), create(0x92, r.cq, s), create(0x93, recvCQ, s)
	own := create(0x94, r.cq, nil)
	recv := func(id uint64, num uint32) abi.SiwCQE {
		return abi.SiwCQE{ID: id, QPID: uint64(num), Opcode: abi.SIW_OP_RECEIVE}
	}
	r.complete(recv(1, 0x91))
	r.complete(abi.SiwCQE{ID: 50, QPID: 0x91, Opcode: abi.SIW_OP_SEND})
	r.complete(recv(2, 0x92))
	r.complete(recv(60, 0x94))
	r.complete(abi.SiwCQE{ID: 51, QPID: 0x93, Opcode: abi.SIW_OP_SEND})
	closeQP := func(q *qp, want ...uint64) {
		t.Helper()
		if err := q.Close(); err != nil {
			t.Fatalf("qp.Close: %v", err)
		}
		if !slices.Equal(dropped, want) {
			t.Errorf("dropped receives = %v, want %v", dropped, want)
		}
	}
	// The kernel refuses, so the completions stay.
	r.destroy = func() error { return syscall.EPERM }
	if err := first.Close(); !errors.Is(err, syscall.EPERM) || len(dropped) != 0 {
		t.Fatalf("qp.Close() = %v with dropped receives %v, want EPERM and none", err, dropped)
	}
	r.destroy = func() error { // it flushes
		r.complete(abi.SiwCQE{ID: 3, QPID: 0x91, Opcode: abi.SIW_OP_RECEIVE, Status: abi.SIW_WC_WR_FLUSH_ERR})
		return nil
	}
	closeQP(first, 1, 3)
	r.destroy = nil
	closeQP(first, 1, 3)
	closeQP(second, 1, 3, 2) // its completion was already moved to the list of the provider
	closeQP(third, 1, 3, 2)
	closeQP(own, 1, 3, 2)
	if got := ids(r.poll(9)); len(got) != 0 {
		t.Errorf("completed IDs = %v, want none", got)
	}
}

// foreignSRQ is an SRQ of another driver.
type foreignSRQ struct{ provider.SRQ }

func TestForeignSRQ(t *testing.T) {
	r := newRig(t, 4)
	if _, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: r.cq, RecvCQ: r.cq, SRQ: foreignSRQ{}}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("CreateQP with an SRQ of another driver: error = %v, want EINVAL", err)
	}
}
