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

// TestFlush has the provider complete what the kernel leaves in the queues, after
// what the kernel has completed itself, in order, and wake who waits.
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
		t.Errorf("%d wakes, moved to %v", r.wakes, r.moved)
	}
	// The CQ goes on with others' completions.
	r.complete(abi.SiwCQE{ID: 99})
	var got []uint64
	for _, wc := range append(r.poll(3), r.poll(9)...) {
		got = append(got, wc.ID)
		if wc.ID > 1 && wc.ID < 99 && (wc.Status != provider.WCWRFlushErr || wc.QPNum != 0x77) {
			t.Errorf("%+v", wc)
		}
		if wc.ID == 4 && wc.Opcode != provider.WCRead || wc.ID == 11 && wc.Opcode != provider.WCRecv {
			t.Errorf("%+v", wc)
		}
	}
	want := []uint64{1, 2, 3, 4, 11, 12, 99}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	if r.takeSend() != nil {
		t.Error("the kernel still has a request that was flushed")
	}

	// Posting goes on, and everything comes back.
	r.wakes = 0
	r.send(provider.SendWR{ID: 21, Opcode: provider.OpSend}, provider.SendWR{ID: 22, Opcode: provider.OpSend})
	r.recv(provider.RecvWR{ID: 23})
	r.qp.BatchBegin()
	if err := r.qp.BatchAdd(&provider.SendWR{ID: 24, Opcode: provider.OpWrite}); err != nil {
		t.Fatal(err)
	}
	if err := r.qp.BatchPost(); err != nil {
		t.Fatal(err)
	}
	wcs := r.poll(9)
	if len(wcs) != 4 || r.wakes != 3 || r.bells != 1 {
		t.Fatalf("%d completions, %d wakes, %d doorbells", len(wcs), r.wakes, r.bells)
	}
	for i, wc := range wcs {
		if wc.ID != uint64(21+i) || wc.Status != provider.WCWRFlushErr {
			t.Errorf("%+v", wc)
		}
	}
	// What nobody polls does not grow for ever.
	for i := 0; ; i++ {
		n, err := r.qp.PostRecv([]provider.RecvWR{{}})
		if errors.Is(err, provider.ErrFull) && n == 0 {
			break
		}
		if err != nil || i > r.cq.Entries() {
			t.Fatalf("receive %d: %v", i, err)
		}
	}
	if n, err := r.qp.PostSend([]provider.SendWR{{Opcode: provider.OpSend}}); n != 0 || !errors.Is(err, provider.ErrFull) {
		t.Errorf("a send: %d, %v", n, err)
	}
	if n := len(r.poll(100)); n != r.cq.Entries() {
		t.Errorf("%d flushed", n)
	}
}

// TestFlushOnRoundCounters flushes where the counters pass the end of 32 bits.
func TestFlushOnRoundCounters(t *testing.T) {
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
			t.Errorf("completion %d is of %d", i, wc.ID)
		}
	}
	if len(wcs) != 8 {
		t.Errorf("%d completions", len(wcs))
	}
}

// TestFlushWhilePosting posts into queues that are full while the kernel flushes them,
// of which the provider has not heard: nothing may be lost.
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

// flushWhilePosting flushes a queue as siw_sq_flush and siw_rq_flush do: they take
// the flag out of a slot with its completion, and once more when they go on.
func (r *rig) flushWhilePosting(depth int, queue []byte, size int, post func(id uint64) (int, error)) {
	var posted, completed []uint64
	fill := func() {
		for len(posted) < 40 {
			n, err := post(uint64(len(posted)))
			if errors.Is(err, provider.ErrFull) && n == 0 {
				return
			}
			if n != 1 || err != nil {
				r.t.Fatalf("request %d: %d, %v", len(posted), n, err)
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
		wqe := abi.View[abi.SiwRQE](queue[get*size%len(queue):]) // an SQE begins like this, too
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
		r.t.Errorf("posted %v, and these have completed: %v", posted, completed)
	}
}

// TestAsideStaysSmall posts one receive to a failed QP for each completion that is polled,
// while others wait: the list of completions is never empty.
func TestAsideStaysSmall(t *testing.T) {
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
				t.Fatalf("completion %d is %+v", want, wcs)
			}
		}
		if got, most := cap(r.cq.soft.list), 4*(waiting+1); got > most {
			t.Errorf("%d completions wait, room for %d, want at most %d", waiting, got, most)
		}
	}
}
