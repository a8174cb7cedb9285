// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"testing"
	"unsafe"

	"purerdma/provider"
	"purerdma/provider/internal/spin"
)

// The posters own a slot once the poller has stored the tail of the queue. These tests show
// that the poller has finished with the slot by then, without a second goroutine. To do so, the
// memory that the poller must access last before this store is the tail itself.

// overlay registers the four bytes at p under the address 0x1000.
func (r *cqRig) overlay(p *uint32) (sge provider.SGE) {
	r.t.Helper()
	mem := unsafe.Slice((*byte)(unsafe.Pointer(p)), 4)
	mr, err := r.ctx.RegMR(&provider.MRConfig{PD: r.pd, Mem: mem, IOVA: 0x1000, Access: provider.LocalWrite})
	if err != nil {
		r.t.Fatalf("Context.RegMR: %v", err)
	}
	r.t.Cleanup(func() { mr.Close() })
	return provider.SGE{Addr: 0x1000, Length: 4, LKey: mr.LKey()}
}

// TestReceiveDataBeforeSlot receives 4 zero bytes of data in a CQE into the tail of the receive
// queue. If the poller copies the data before it frees the slot, the tail is 1 afterwards.
// Otherwise it is 0.
func TestReceiveDataBeforeSlot(t *testing.T) {
	sizes(t, func(t *testing.T, size int) {
		for format := range formats(size) {
			r := newCQRig(t, ofSize(size))
			q := r.qp(provider.RC, nil)
			e := q.recvCQE(q.recvPosted(t, 5, r.overlay(&q.rq.tail)))
			e.Format, e.ByteCount, e.Data = format, 4, make([]byte, 4)
			r.put(e)
			if got := r.one(); got.ID != 5 || got.Status != provider.WCSuccess {
				t.Errorf("completion = %+v, want success of receive 5", got)
			}
			if q.rq.tail != 1 {
				t.Errorf("format %d: the slot was freed before its data were copied", format)
			}
		}
	})
}

// TestFastReceiveDataBeforeSlot is TestReceiveDataBeforeSlot for the loop that takes receives
// like the previous one. This loop counts on from its own tail, while the general decoder would
// count on from the zeros.
func TestFastReceiveDataBeforeSlot(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	q := r.qp(provider.RC, nil)
	first := q.recvCQE(q.recvPosted(t, 4))
	e := q.recvCQE(q.recvPosted(t, 5, r.overlay(&q.rq.tail)))
	e.Format, e.ByteCount, e.Data = formatScatter32, 4, make([]byte, 4)
	r.put(first, e)
	if got := r.poll(); len(got) != 2 || got[1].ID != 5 || got[1].Status != provider.WCSuccess {
		t.Errorf("completions = %+v, want success of receives 4 and 5", got)
	}
	if q.rq.tail != 2 {
		t.Errorf("tail = %d, want 2: the slot was freed before its data were copied", q.rq.tail)
	}
}

// TestReadDataBeforeSlot is TestReceiveDataBeforeSlot with READs and atomics, and the
// tail of the send queue.
func TestReadDataBeforeSlot(t *testing.T) {
	for _, op := range []uint8{opcodeRead, opcodeAtomicCS, opcodeAtomicFA} {
		r := newCQRig(t, provider.CQConfig{})
		q := r.qp(provider.RC, nil)
		tail := r.overlay(&q.sq.tail)
		lkey, _ := r.region(64, 0x2000)
		rest := provider.SGE{Addr: 0x2000, Length: 4, LKey: lkey}
		e := q.sendCQE(q.readWQE(op, 5, tail, rest), op)
		e.Format, e.ByteCount, e.Data = 1, 8, make([]byte, 8)
		r.put(e)
		if got := r.one(); got.ID != 5 || got.Status != provider.WCSuccess {
			t.Errorf("opcode %#x: completion = %+v, want success of request 5", op, got)
		}
		if q.sq.tail != 1 {
			t.Errorf("opcode %#x: the WQE was freed before its data were copied", op)
		}
	}
}

// TestUMROpcodeBeforeSlot completes a UMR whose recorded opcode is in the tail of the send
// queue. The opcode is WCBindMW before the slot is freed, and WCLocalInv after it.
func TestUMROpcodeBeforeSlot(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	q := r.qp(provider.RC, nil)
	s := &q.sq
	s.pending = (*pendingWR)(unsafe.Add(unsafe.Pointer(&s.tail), -int(unsafe.Offsetof(pendingWR{}.umr))))
	*s.pending = pendingWR{id: 7, head: uint32(provider.WCBindMW), umr: uint32(provider.WCBindMW)}
	spin.StoreRelease(&s.head, s.tail+1)
	r.put(q.sendCQE(0, opcodeUMR))
	if got := r.one(); got.ID != 7 || got.Opcode != provider.WCBindMW {
		t.Errorf("completion = %+v, want %v of request 7", got, provider.WCBindMW)
	}
	if s.tail != uint32(provider.WCLocalInv) {
		t.Errorf("tail = %d, want %d", s.tail, provider.WCLocalInv)
	}
}
