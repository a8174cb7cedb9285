// SPDX-License-Identifier: Apache-2.0

//go:build linux

package siw

import (
	"errors"
	"slices"
	"strconv"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
)

// TestFlush has the provider complete the requests that the kernel leaves in the queues. These
// completions must follow the kernel's own completions in order, and the provider must wake the
// waiting goroutines.
func TestFlush(t *testing.T) {
	r := newRig(t, 4)
	r.qp.SetState(provider.QPRTS)
	r.send(provider.SendWR{ID: 1, Opcode: provider.OpSend}, provider.SendWR{ID: 2, Opcode: provider.OpSend},
		provider.SendWR{ID: 3, Opcode: provider.OpWrite}, provider.SendWR{ID: 4, Opcode: provider.OpRead, SGList: make([]provider.SGE, 1)})
	r.recv(provider.RecvWR{ID: 11}, provider.RecvWR{ID: 12})
	r.takeSend()
	r.takeSend()
	r.complete(abi.SiwCQE{ID: 1})
	r.complete(abi.SiwCQE{ID: 2, Status: abi.SIW_WC_WR_FLUSH_ERR})
	r.qp.SetState(provider.QPErr)
	if r.wakes != 1 || len(r.moved) != 1 || r.moved[0] != provider.QPErr {
		t.Errorf("%d wakes, moves to %v, want 1 wake and one move to ERR", r.wakes, r.moved)
	}
	// The CQ continues with completions of other QPs.
	r.complete(abi.SiwCQE{ID: 99})
	var got []uint64
	for _, wc := range append(r.poll(3), r.poll(9)...) {
		got = append(got, wc.ID)
		if wc.ID > 1 && wc.ID < 99 && (wc.Status != provider.WCWRFlushErr || wc.QPNum != 0x77) {
			t.Errorf("completion = %+v, want WCWRFlushErr of QP 0x77", wc)
		}
		if wc.ID == 4 && wc.Opcode != provider.WCRead || wc.ID == 11 && wc.Opcode != provider.WCRecv {
			t.Errorf("completion = %+v, want a READ for ID 4 and a receive for ID 11", wc)
		}
	}
	want := []uint64{1, 2, 3, 4, 11, 12, 99}
	if len(got) != len(want) {
		t.Fatalf("completed IDs = %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("completed IDs = %v, want %v", got, want)
		}
	}
	if r.takeSend() != nil {
		t.Error("the kernel still has a request that was flushed")
	}

	// The program can still post, and every request completes.
	r.wakes = 0
	r.send(provider.SendWR{ID: 21, Opcode: provider.OpSend}, provider.SendWR{ID: 22, Opcode: provider.OpSend})
	r.recv(provider.RecvWR{ID: 23})
	r.qp.BatchBegin()
	if err := r.qp.BatchAdd(&provider.SendWR{ID: 24, Opcode: provider.OpWrite}); err != nil {
		t.Fatalf("qp.BatchAdd: %v", err)
	}
	if err := r.qp.BatchPost(); err != nil {
		t.Fatalf("qp.BatchPost: %v", err)
	}
	wcs := r.poll(9)
	if len(wcs) != 4 || r.wakes != 3 || r.bells != 1 {
		t.Fatalf("%d completions, %d wakes, %d doorbells, want 4, 3 and 1", len(wcs), r.wakes, r.bells)
	}
	for i, wc := range wcs {
		if wc.ID != uint64(21+i) || wc.Status != provider.WCWRFlushErr {
			t.Errorf("completion %d = %+v, want WCWRFlushErr of ID %d", i, wc, 21+i)
		}
	}
	// Completions that the program never polls do not grow without bound.
	for i := 0; ; i++ {
		n, err := r.qp.PostRecv([]provider.RecvWR{{}})
		if errors.Is(err, provider.ErrFull) && n == 0 {
			break
		}
		if err != nil || i > r.cq.Entries() {
			t.Fatalf("PostRecv of receive %d: %v, want ErrFull when the CQ is full", i, err)
		}
	}
	if n, err := r.qp.PostSend([]provider.SendWR{{Opcode: provider.OpSend}}); n != 0 || !errors.Is(err, provider.ErrFull) {
		t.Errorf("PostSend = %d, %v, want 0, ErrFull", n, err)
	}
	if n := len(r.poll(100)); n != r.cq.Entries() {
		t.Errorf("%d flushed completions, want %d", n, r.cq.Entries())
	}
}

// TestFlushCounterOverflow flushes while the 32-bit counters overflow.
func TestFlushCounterOverflow(t *testing.T) {
	r := newRig(t, 4)
	r.qp.SetState(provider.QPRTS)
	for _, c := range []*uint32{&r.cq.get, &r.cqPut, &r.qp.sq.put, &r.qp.sq.published, &r.sqGet, &r.qp.rq.put} {
		*c = ^uint32(0) - 1
	}
	for id := range uint64(4) {
		r.send(provider.SendWR{ID: id + 4, Opcode: provider.OpSend})
		r.complete(abi.SiwCQE{ID: id})
	}
	r.state(provider.QPErr)
	wcs := r.poll(20)
	for i, wc := range wcs {
		if wc.ID != uint64(i) {
			t.Errorf("completion %d has ID %d, want the index", i, wc.ID)
		}
	}
	if len(wcs) != 8 {
		t.Errorf("%d completions, want 8", len(wcs))
	}
}

// TestFlushWhilePosting posts into full queues while the kernel flushes them, before the
// provider has received the event. No request may be lost.
func TestFlushWhilePosting(t *testing.T) {
	for _, depth := range []int{1, 3, 4} {
		t.Run("sends/"+strconv.Itoa(depth), func(t *testing.T) {
			r := newRig(t, depth)
			r.qp.SetState(provider.QPRTS)
			r.flushWhilePosting(depth, r.qp.sq.mapping.Bytes(), abi.Size[abi.SiwSQE](), func(id uint64) (int, error) {
				return r.qp.PostSend([]provider.SendWR{{ID: id, Opcode: provider.OpWrite}})
			})
		})
		t.Run("receives/"+strconv.Itoa(depth), func(t *testing.T) {
			r := newRig(t, depth)
			r.qp.SetState(provider.QPRTS)
			r.flushWhilePosting(depth, r.qp.rq.mapping.Bytes(), abi.Size[abi.SiwRQE](), func(id uint64) (int, error) {
				return r.qp.PostRecv([]provider.RecvWR{{ID: id}})
			})
		})
	}
}

// flushWhilePosting flushes a queue as siw_sq_flush and siw_rq_flush do. They clear the flag of
// a slot when they complete it, and clear it again when they continue.
func (r *rig) flushWhilePosting(depth int, queue []byte, size int, post func(id uint64) (int, error)) {
	var posted, completed []uint64
	fill := func() {
		for len(posted) < 40 {
			n, err := post(uint64(len(posted)))
			if errors.Is(err, provider.ErrFull) && n == 0 {
				return
			}
			if n != 1 || err != nil {
				r.t.Fatalf("request %d: post = %d, %v, want 1, nil", len(posted), n, err)
			}
			posted = append(posted, uint64(len(posted)))
		}
	}
	take := func() {
		for _, wc := range r.poll(99) {
			completed = append(completed, wc.ID)
		}
	}
	fill()
	if len(posted) < depth {
		r.t.Errorf("%d requests fit, want %d", len(posted), depth)
	}
	for get := 0; ; get++ {
		wqe := abi.View[abi.SiwRQE](queue[get*size%len(queue):]) // the beginning of an SQE is identical
		if wqe.Flags&abi.SIW_WQE_VALID == 0 {
			break
		}
		r.complete(abi.SiwCQE{ID: wqe.ID, Status: abi.SIW_WC_WR_FLUSH_ERR})
		wqe.Flags = 0
		take()
		fill()
		wqe.Flags = 0
	}
	r.state(provider.QPErr)
	take()
	if !slices.Equal(completed, posted) {
		r.t.Errorf("completed IDs = %v, want %v", completed, posted)
	}
}

// TestSoftListStaysSmall posts one receive to a failed QP for each polled completion, while others
// wait. The list of completions is never empty.
func TestSoftListStaysSmall(t *testing.T) {
	for _, waiting := range []int{1, 2, 3, 7, 15} {
		r := newRig(t, 4)
		r.qp.SetState(provider.QPErr)
		id := uint64(0)
		post := func() {
			t.Helper()
			r.recv(provider.RecvWR{ID: id})
			id++
		}
		for range waiting {
			post()
		}
		for want := range uint64(2000) {
			post()
			if wcs := r.poll(1); len(wcs) != 1 || wcs[0].ID != want {
				t.Fatalf("poll(1) = %+v, want ID %d", wcs, want)
			}
		}
		if got, most := cap(r.cq.soft.list), 4*(waiting+1); got > most {
			t.Errorf("%d completions wait: capacity of the list = %d, want at most %d", waiting, got, most)
		}
	}
}

// TestFlushBehindLostRequests loses two requests of each queue, as the kernel does in queues
// without an empty slot. All other requests must complete.
func TestFlushBehindLostRequests(t *testing.T) {
	r := newRig(t, 7)
	r.qp.SetState(provider.QPRTS)
	for id := range uint64(7) {
		r.send(provider.SendWR{ID: id, Opcode: provider.OpWrite})
		r.recv(provider.RecvWR{ID: 10 + id})
	}
	for _, slot := range []uint32{1, 4} {
		r.qp.sq.slots.StoreWord(slot, 0)
		r.qp.rq.slots.StoreWord(slot, 0)
	}
	r.state(provider.QPErr)
	var got []uint64
	for _, wc := range r.poll(99) {
		got = append(got, wc.ID)
	}
	if want := []uint64{0, 2, 3, 5, 6, 10, 12, 13, 15, 16}; !slices.Equal(got, want) {
		t.Errorf("completed requests = %v, want %v", got, want)
	}
}
