// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"testing"

	"purerdma/test/connectx/prm"
)

// announce updates a QP's doorbell record without a doorbell.
func (q *testQP) announce() { be.PutUint32(q.h.bytes(q.record+4, 4), uint32(q.pi)) }

// ringFor stores the start of a request to the register.
func (q *testQP) ringFor(w []byte) { q.h.d.Ring(q.h.uar, RegisterSend, w[:8]) }

// completed polls all completions and returns their number.
func (q *testCQ) completed() (n int) {
	for q.poll() != nil {
		n++
	}
	return n
}

// TestExactDoorbells posts requests and rings late, or not at all. With exact doorbells only
// the doorbell of a request starts it.
func TestExactDoorbells(t *testing.T) {
	for _, exact := range []bool{false, true} {
		h := newHost(t, nil, 1)
		h.d.SetQuirks(Quirks{ExactDoorbells: exact})
		pair := func() (*testQP, *testQP) {
			a, b := h.qp(prm.ServiceRC, h.cq(8, nil), h.cq(5, nil), nil), h.qp(prm.ServiceRC, h.cq(8, nil), h.cq(5, nil), nil)
			a.connect(b.n, h.gid, nil)
			b.connect(a.n, h.gid, nil)
			return a, b
		}
		q, _ := pair()
		other, _ := pair()
		wants := func(what string, want int) {
			t.Helper()
			if got := q.send.completed(); got != want {
				t.Errorf("exact %v: %d requests were executed, want %d: %s", exact, got, want, what)
			}
		}
		first, second := q.put(atOnce()), q.put(atOnce())
		q.announce()
		q.ringFor(first)
		if exact {
			wants("the first of two doorbells", 1)
			other.post(atOnce())
			wants("a doorbell of another QP", 0)
			q.ringFor(first)
			wants("the first doorbell again", 0)
			q.ringFor(second)
			wants("the second doorbell", 1)
		} else {
			wants("the first of two doorbells", 2)
		}
		// A doorbell for the last of many requests applies to all, even across the end of the
		// ring and of 16 bits.
		for i := range 2000 {
			for range 39 {
				q.put(atOnce())
			}
			last := q.put(atOnce())
			q.announce()
			q.ringFor(last)
			if got := q.send.completed(); got != 40 {
				t.Fatalf("exact %v, round %d: %d requests were executed, want 40", exact, i, got)
			}
		}
		// This also applies to the error state.
		last := q.put(atOnce(), atOnce())
		q.announce()
		if err := h.on(prm.Op2Err, q.n); err != nil {
			t.Fatalf("h.on(Op2Err): %v", err)
		}
		if exact {
			wants("no doorbell", 0)
			q.ringFor(last)
		}
		wants("two that are flushed", 2)
	}
}

// TestReceiveCounterModulo receives more messages than the queue has slots.
func TestReceiveCounterModulo(t *testing.T) {
	for _, modulo := range []bool{false, true} {
		p := newPair(t, prm.ServiceRC, nil)
		p.b.d.SetQuirks(Quirks{ReceiveCounterModulo: modulo})
		dst := p.b.alloc(64)
		for i := range uint64(40) {
			want := i
			if modulo {
				want = i % 16
			}
			p.qb.receive(dst, 64)
			if i == 39 { // a flushed receive
				if err := p.b.on(prm.Op2Err, p.qb.n); err != nil {
					t.Fatalf("p.b.on(Op2Err): %v", err)
				}
				p.qb.recv.want(prm.CQERespErr, map[*prm.Field]uint64{&prm.CQE.WQECounter: want})
				break
			}
			p.qa.post(request1(prm.WQESend, signaled, 0).inline([]byte("data")))
			p.qb.recv.want(prm.CQERespSend, map[*prm.Field]uint64{&prm.CQE.WQECounter: want})
			p.qa.send.want(prm.CQEReq, nil)
		}
	}
}

// TestHoldResize moves a queue. The last entry of the old ring must arrive when the test
// releases it, and later entries at their normal places.
func TestHoldResize(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	p.a.d.SetQuirks(Quirks{HoldResize: true})
	q := p.qa.send
	p.qa.post(atOnce())
	buf, err := q.resize(6, 64, nil)
	if err != nil {
		t.Fatalf("q.resize: %v", err)
	}
	p.qa.post(atOnce())
	q.want(prm.CQEReq, nil)
	q.empty()
	if n := p.a.d.ReleaseResize(); n != 1 {
		t.Errorf("ReleaseResize = %d, want 1", n)
	}
	q.want(prm.CQEResize, nil)
	q.buf, q.log = buf, 6
	q.want(prm.CQEReq, map[*prm.Field]uint64{&prm.CQE.WQECounter: 1})
	q.empty()
	if n := p.a.d.ReleaseResize(); n != 0 {
		t.Errorf("second ReleaseResize = %d, want 0", n)
	}
}

// TestStrayCompletion destroys a QP that completes a request afterwards.
func TestStrayCompletion(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	if p.b.d.StrayCompletion(false) {
		t.Error("StrayCompletion without a destroyed QP = true")
	}
	p.qb.receive(p.b.alloc(64), 64)
	p.qa.post(request1(prm.WQESend, signaled, 0).inline([]byte("data")))
	p.qb.recv.want(prm.CQERespSend, nil)
	if err := p.b.on(prm.OpDestroyQP, p.qb.n); err != nil {
		t.Fatalf("p.b.on(OpDestroyQP): %v", err)
	}
	for _, receive := range []bool{false, true} {
		if !p.b.d.StrayCompletion(receive) {
			t.Errorf("StrayCompletion(%v) = false", receive)
		}
	}
	who := map[*prm.Field]uint64{&prm.CQE.UserIndex: 0x77, &prm.CQE.QPN: uint64(p.qb.n)}
	p.qb.send.want(prm.CQEReq, who)
	p.qb.recv.want(prm.CQERespSend, who)
	if err := p.b.on(prm.OpDestroyCQ, p.qb.send.n); err != nil {
		t.Fatalf("p.b.on(OpDestroyCQ): %v", err)
	}
	if p.b.d.StrayCompletion(false) {
		t.Error("StrayCompletion with a destroyed CQ = true")
	}
}
