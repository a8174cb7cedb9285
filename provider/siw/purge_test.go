// SPDX-License-Identifier: Apache-2.0

//go:build linux

package siw

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"purerdma/abi"
	"purerdma/provider"
)

// ids returns what wcs are of.
func ids(wcs []provider.WC) []uint64 {
	var got []uint64
	for _, wc := range wcs {
		got = append(got, wc.ID)
	}
	return got
}

// create makes one more QP on the rig's CQ.
func (r *rig) create() (*qp, error) {
	q, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: r.cq, RecvCQ: r.cq, Cap: provider.QPCap{SendWR: 4, RecvWR: 4}})
	if err != nil {
		return nil, err
	}
	r.t.Cleanup(func() { q.Close() })
	return q.(*qp), nil
}

// TestClosedQP closes a QP that has left completions in a CQ, between those of another
// QP. The next QP has the same number.
func TestClosedQP(t *testing.T) {
	r := newRig(t, 4)
	r.num = 0x99
	other, err := r.create()
	if err != nil {
		t.Fatal(err)
	}
	r.num = 0x77
	other.SetState(provider.QPRTS)
	r.qp.SetState(provider.QPRTS)
	for i := range uint64(5) { // somewhere in the ring
		r.complete(abi.SiwCQE{ID: i})
	}
	r.poll(9)

	r.complete(abi.SiwCQE{ID: 10})
	r.complete(abi.SiwCQE{ID: 20, QPID: 0x99, Opcode: abi.SIW_OP_RECEIVE, Bytes: 9})
	r.complete(abi.SiwCQE{ID: 11})
	// Some that the kernel does not make, of both.
	for id, q := range []*qp{r.qp, other} {
		q.SetState(provider.QPErr)
		if n, err := q.PostRecv([]provider.RecvWR{{ID: 12 + 9*uint64(id)}}); n != 1 || err != nil {
			t.Fatal(n, err)
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
		t.Fatal(err)
	}
	r.destroy = nil
	if _, err := r.create(); err != nil {
		t.Fatal(err)
	}
	r.complete(abi.SiwCQE{ID: 30})
	wcs := r.poll(2)
	if wcs[0] != (provider.WC{ID: 20, Opcode: provider.WCRecv, QPNum: 0x99, ByteLen: 9}) {
		t.Errorf("%+v", wcs[0])
	}
	// What was taken out makes room, at once and for all.
	for i := range uint64(r.cq.Entries() - 1) {
		r.complete(abi.SiwCQE{ID: 31 + i})
	}
	want := []uint64{20, 21, 22}
	for i := range uint64(r.cq.Entries()) {
		want = append(want, 30+i)
	}
	if got := ids(append(wcs, r.poll(99)...)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestClosedQPOfTwoCQs looks into both.
func TestClosedQPOfTwoCQs(t *testing.T) {
	r := newRig(t, 4)
	second, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { second.Close() })
	r.num = 0x55
	q, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: r.cq, RecvCQ: second, Cap: provider.QPCap{SendWR: 4, RecvWR: 4}})
	if err != nil {
		t.Fatal(err)
	}
	r.complete(abi.SiwCQE{ID: 1, QPID: 0x55})
	r.complete(abi.SiwCQE{ID: 2})
	q.SetState(provider.QPErr)
	if n, err := q.PostRecv([]provider.RecvWR{{ID: 3}, {ID: 4}}); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if got := ids(r.poll(9)); !slices.Equal(got, []uint64{2}) {
		t.Errorf("in the CQ of the sends: %v", got)
	}
	if n, err := second.Poll(make([]provider.WC, 9)); n != 0 || err != nil {
		t.Errorf("in the CQ of the receives: %d, %v", n, err)
	}
}

// TestNumberFreedEarly has the kernel give the number of a QP to the next one before
// the command that destroys it has returned.
func TestNumberFreedEarly(t *testing.T) {
	r := newRig(t, 4)
	r.complete(abi.SiwCQE{ID: 1})
	made, next := make(chan struct{}), make(chan error, 1)
	r.made = func() { close(made) }
	r.destroy = func() error {
		r.destroy = nil
		go func() {
			_, err := r.create()
			next <- err
		}()
		<-made
		select {
		case err := <-next:
			t.Errorf("there is a QP while the CQ has completions of one of its number: %v", err)
			next <- err
			r.complete(abi.SiwCQE{ID: 2})
		case <-time.After(20 * time.Millisecond):
		}
		return nil
	}
	if err := r.qp.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-next; err != nil {
		t.Fatal(err)
	}
	r.complete(abi.SiwCQE{ID: 3})
	if got := ids(r.poll(9)); !slices.Equal(got, []uint64{3}) {
		t.Errorf("got %v", got)
	}
}

// TestNotClosed keeps what a QP has that the kernel does not destroy.
func TestNotClosed(t *testing.T) {
	r := newRig(t, 4)
	r.complete(abi.SiwCQE{ID: 1})
	r.destroy = func() error { return syscall.EPERM }
	if err := r.qp.Close(); !errors.Is(err, syscall.EPERM) {
		t.Fatal(err)
	}
	r.destroy = nil
	if got := ids(r.poll(9)); !slices.Equal(got, []uint64{1}) {
		t.Errorf("got %v", got)
	}
}
