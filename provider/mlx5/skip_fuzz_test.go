// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"encoding/binary"
	"testing"

	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
)

// forger is a device that writes the valid completions of one QP, fair, and arbitrary other
// entries. At the same time the program posts to three QPs, polls, resizes the CQ and resets
// QPs.
type forger struct {
	*skipRig
	fuzzInput
	id    uint64         // of the newest request
	open  map[uint64]*QP // the QPs of the requests that have not completed, by ID
	sends int            // sends posted to fair
	recvs int
	send  int // completed by the device
	recv  int
}

// newID returns the ID for the next request.
func (f *forger) newID(q *QP) uint64 {
	f.id++
	f.open[f.id] = q
	return f.id
}

// unpolled returns the number of entries in the ring.
func (f *forger) unpolled() int { return int((f.dev.Produced() - f.dev.ConsumerIndex()) & 0xffffff) }

// room reports whether the ring has room for one more entry, in addition to the entry that ends
// a resize.
func (f *forger) room() bool { return f.unpolled() < f.dev.Entries()-1 }

// forge writes an entry of arbitrary bytes that does not name fair.
func (f *forger) forge() {
	if !f.room() {
		return
	}
	b := make([]byte, f.dev.CQESize)
	e := b[len(b)-cqeSize:]
	for i := range e {
		e[i] = f.next()
	}
	q := []*QP{f.q, f.q, f.onSRQ, f.onSRQ, nil}[f.next()%5]
	if q != nil {
		binary.BigEndian.PutUint32(e[cqeUIdx:], q.index)
	} else {
		e[cqeUIdx+1] |= 0x80
	}
	if f.next()%2 == 0 {
		setCounter(e, uint16(f.next()%4))
	}
	e[cqeOpOwn] &^= 1
	if e[cqeOpOwn]>>4 == cqeInvalid {
		e[cqeOpOwn] ^= 0x40
	}
	f.dev.Complete(b)
}

// step executes one step.
func (f *forger) step() {
	t := f.t
	q := []*QP{f.q, f.onSRQ, f.fair}[f.next()%3]
	switch f.next() % 12 {
	case 0, 1, 2, 3:
		f.forge()
	case 4:
		op := provider.OpSend
		if q != f.fair && f.next()%2 == 0 {
			f.discard(q)
			op = provider.OpLocalInv // two blocks
		}
		id := f.newID(q)
		if n, _ := q.PostSend([]provider.SendWR{{ID: id, Opcode: op, Flags: provider.SendSignaled}}); n == 0 {
			delete(f.open, id)
		} else if q == f.fair {
			f.sends++
		}
	case 5:
		if q.srq != nil {
			return
		}
		id := f.newID(q)
		if n, _ := q.PostRecv([]provider.RecvWR{{ID: id}}); n == 0 {
			delete(f.open, id)
		} else if q == f.fair {
			f.recvs++
		}
	case 6, 7: // a request of fair completes
		switch {
		case !f.room():
		case f.send < f.sends && f.next()%2 == 0:
			f.put(f.fair.sendCQE(uint16(f.send), opcodeSend))
			f.send++
		case f.recv < f.recvs:
			f.put(f.fair.recvCQE(uint16(f.recv)))
			f.recv++
		}
	case 8:
		if q == f.fair || f.next()%4 != 0 {
			return
		}
		if err := q.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); err != nil {
			t.Fatalf("QP.Modify: %v", err)
		}
		for id, of := range f.open {
			if of == q {
				delete(f.open, id)
			}
		}
		f.connect(q)
	case 9:
		if f.next()%8 == 0 && f.unpolled() > 0 {
			f.cq.Resize(1 << (5 + f.next()%4))
		}
	case 10:
		f.waitFailed()
	default:
		f.polled(make([]provider.WC, f.next()%20))
	}
}

// discard builds requests of one block and discards them.
func (f *forger) discard(q *QP) {
	q.BatchBegin()
	for range 3 {
		q.BatchAdd(&provider.SendWR{ID: 1 << 32, Opcode: provider.OpSend})
	}
	q.BatchDiscard()
}

// waitFailed waits until no goroutine moves a QP to the error state.
func (f *forger) waitFailed() {
	for _, q := range []*QP{f.q, f.onSRQ} {
		f.waitEnded(q)
	}
}

// polled polls and checks that each completion is of an outstanding request of its QP.
func (f *forger) polled(wcs []provider.WC) int {
	n, err := f.cq.Poll(wcs)
	if err != nil {
		f.t.Fatalf("CQ.Poll: %v", err)
	}
	for _, wc := range wcs[:n] {
		if wc.QPNum == f.onSRQ.num && wc.ID == 0 {
			continue // a receive of the SRQ
		}
		q := f.open[wc.ID]
		if q == nil || q.num != wc.QPNum {
			f.t.Fatalf("completion = %+v, want one of an outstanding request", wc)
		}
		if q == f.fair && wc.Status != provider.WCSuccess {
			f.t.Fatalf("completion = %+v, want success", wc)
		}
		delete(f.open, wc.ID)
	}
	return n
}

func fuzzSkip(t *testing.T, data []byte) {
	f := &forger{fuzzInput: fuzzInput{data[:min(len(data), 8192)]}, open: map[uint64]*QP{}}
	f.skipRig = emptySkipRig(t, Driver{}, &CQOptions{EntrySize: 64 << (f.next() % 2)})
	if _, err := f.onSRQ.srq.PostRecv(make([]provider.RecvWR, 4)); err != nil {
		t.Fatalf("SRQ.PostRecv: %v", err)
	}
	skipped := f.next()%2 == 0
	if skipped {
		f.put(&mlx5test.CQE{UserIndex: 0xffffff})
		f.polled(make([]provider.WC, 1))
	}
	for len(f.data) > 0 {
		f.step()
	}
	// All requests that fair has posted complete.
	for f.send < f.sends || f.recv < f.recvs {
		for f.room() && f.send < f.sends {
			f.put(f.fair.sendCQE(uint16(f.send), opcodeSend))
			f.send++
		}
		for f.room() && f.recv < f.recvs {
			f.put(f.fair.recvCQE(uint16(f.recv)))
			f.recv++
		}
		f.polled(make([]provider.WC, 7))
	}
	for f.polled(make([]provider.WC, 7)) > 0 { // until the ring is empty
	}
	f.waitFailed()
	for f.polled(make([]provider.WC, 7)) > 0 {
	}
	for id, q := range f.open {
		if q == f.fair {
			t.Errorf("request %d of the other QP has not completed", id)
		}
	}
	if skipped { // then forged completions do not retire other requests silently
		open := map[*QP]uint32{}
		for _, q := range f.open {
			open[q]++
		}
		for _, q := range []*QP{f.q, f.onSRQ, f.fair} {
			if n := q.sq.head - q.sq.tail + q.rq.head - q.rq.tail; n != open[q] {
				t.Errorf("QP %#x has %d requests and receives outstanding, %d have not completed", q.num, n, open[q])
			}
		}
	}
	for _, q := range []*QP{f.q, f.onSRQ} {
		if q.failure.Load() == qpFailed && (q.sq.head != q.sq.tail || q.rq.head != q.rq.tail) {
			t.Errorf("failed QP %#x has %d requests and %d receives outstanding, want 0", q.num, q.sq.head-q.sq.tail, q.rq.head-q.rq.tail)
		}
	}
}

// FuzzSkip searches for bytes in completions that make a poll panic or hang, lose a completion
// of a QP that they do not name, or complete a request twice.
func FuzzSkip(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(randomBytes(seed))
	}
	f.Fuzz(fuzzSkip)
}

// TestForgedEntries runs the test of FuzzSkip with random bytes.
func TestForgedEntries(t *testing.T) {
	for seed := range uint64(shorter(2000, 150)) {
		t.Run("", func(t *testing.T) { fuzzSkip(t, randomBytes(seed)) })
	}
}
