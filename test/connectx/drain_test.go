// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"testing"

	"purerdma/test/connectx/prm"
)

// TestDrain drains a QP while a request waits for a receive of the peer. The request must complete, the
// driver must get the event, and later requests must execute when the QP continues.
func TestDrain(t *testing.T) {
	p := newPair(t, prm.ServiceRC, func(c []byte) { prm.QPC.RNRRetry.Set(c, rnrForever) })
	states := func(want uint64) {
		t.Helper()
		if s := p.qa.state(); s != want {
			t.Errorf("state = %d, want %d", s, want)
		}
	}
	p.locked(func() {
		p.qa.postLocked(request1(prm.WQESend, signaled, 0).inline([]byte("x")))
		p.qa.put(atOnce())
		be.PutUint32(p.a.bytes(p.qa.record+4, 4), uint32(p.qa.pi))
	})
	if !p.a.d.Drain(p.qa.n) {
		t.Fatal("Drain of a QP in RTS = false")
	}
	if p.a.d.Drain(p.qa.n) || p.a.d.Drain(0x777777) {
		t.Error("Drain of a draining or missing QP = true")
	}
	states(prm.QPSQDraining)
	if err := p.qa.modify(prm.OpSQDRTS, nil); err == nil {
		t.Error("SQD2RTS before the end of the drain = nil error")
	}
	dst := p.b.alloc(64)
	p.locked(func() { p.qb.receive(dst, 64) })
	e := p.completion(p.qa.send)
	if n := prm.CQE.WQECounter.Get(e); n != 0 {
		t.Errorf("completion of request %d, want 0", n)
	}
	states(prm.QPSQD)
	p.a.wantEvent(prm.EventSQDrained, p.qa.n)
	p.qa.post(atOnce())
	p.qa.send.empty()
	// Messages of its peer still arrive.
	p.qa.receive(p.a.alloc(64), 64)
	p.qb.post(request1(prm.WQESend, signaled, 0).inline([]byte("x")))
	p.qb.send.want(prm.CQEReq, nil)
	p.qa.recv.want(prm.CQERespSend, nil)
	if err := p.qa.modify(prm.OpSQDRTS, nil); err != nil {
		t.Fatalf("p.qa.modify(OpSQDRTS): %v", err)
	}
	for _, n := range []uint64{1, 2} {
		p.qa.send.want(prm.CQEReq, map[*prm.Field]uint64{&prm.CQE.WQECounter: n})
	}
	// A QP without requests is drained at once.
	if !p.a.d.Drain(p.qa.n) {
		t.Error("second Drain = false")
	}
	states(prm.QPSQD)
	if err := p.qa.modify(prm.Op2Err, nil); err != nil {
		t.Errorf("p.qa.modify(Op2Err): %v", err)
	}
}
