// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"testing"
	"time"

	"purerdma/test/connectx/prm"
)

// TestDrain has a QP drain while the answer to a request is awaited: that one ends, the
// driver hears of it, and what was posted behind it is done when the QP goes on.
func TestDrain(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	late := true
	p.a.d.fabric.OnPacket(func(*Packet) (Fate, time.Duration) {
		if late {
			late = false
			return Arrives, 20 * time.Millisecond
		}
		return Arrives, 0
	})
	states := func(want uint64) {
		t.Helper()
		if s := p.qa.state(); s != want {
			t.Errorf("state %d, not %d", s, want)
		}
	}
	p.locked(func() {
		p.qa.postLocked(atOnce())
		p.qa.put(atOnce())
		be.PutUint32(p.a.bytes(p.qa.record+4, 4), uint32(p.qa.pi))
	})
	if !p.a.d.Drain(p.qa.n) {
		t.Fatal("there is no such QP")
	}
	if p.a.d.Drain(p.qa.n) || p.a.d.Drain(0x777777) {
		t.Error("a QP drains that is not in RTS, or not there")
	}
	states(prm.QPSQDraining)
	if err := p.qa.modify(prm.OpSQDRTS, nil); err == nil {
		t.Error("the QP goes on before it is drained")
	}
	e := p.completion(p.qa.send)
	if n := prm.CQE.WQECounter.Get(e); n != 0 {
		t.Errorf("request %d is done", n)
	}
	states(prm.QPSQD)
	p.a.wantEvent(prm.EventSQDrained, p.qa.n)
	p.qa.post(atOnce())
	p.qa.send.empty()
	// Its peer's messages come all the same.
	p.qa.receive(p.a.alloc(64), 64)
	p.qb.post(request1(prm.WQESend, signaled, 0).inline([]byte("x")))
	p.qb.send.want(prm.CQEReq, nil)
	p.qa.recv.want(prm.CQERespSend, nil)
	if err := p.qa.modify(prm.OpSQDRTS, nil); err != nil {
		t.Fatal(err)
	}
	for _, n := range []uint64{1, 2} {
		p.qa.send.want(prm.CQEReq, map[*prm.Field]uint64{&prm.CQE.WQECounter: n})
	}
	// One that has nothing to do is drained at once.
	if !p.a.d.Drain(p.qa.n) {
		t.Error("it does not drain again")
	}
	states(prm.QPSQD)
	if err := p.qa.modify(prm.Op2Err, nil); err != nil {
		t.Error(err)
	}
}
