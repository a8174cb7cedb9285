// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"strings"
	"testing"

	"purerdma/test/connectx/prm"
)

// TestStrict makes each violation that a card might not detect.
func TestStrict(t *testing.T) {
	send := func() *wqe { return request1(prm.WQESend, signaled, 0).inline([]byte("some text")) }
	ring := func(p *pair, last []byte) { p.a.d.Ring(p.a.uar, RegisterSend, last[:8]) }
	record := func(p *pair, n uint16) { be.PutUint32(p.a.bytes(p.qa.record+4, 4), uint32(n)) }
	// wrong posts a request that is changed in the ring.
	wrong := func(change func(w []byte)) func(p *pair) {
		return func(p *pair) {
			p.qa.put(send())
			w := p.a.bytes(p.qa.sq, 64)
			change(w)
			record(p, p.qa.pi)
			last := append([]byte(nil), w[:8]...)
			last[6] = byte(p.qa.n) // the QP in the register is valid
			ring(p, last)
		}
	}
	for name, tc := range map[string]struct {
		do   func(p *pair)
		want string
	}{
		"no mistake":      {func(p *pair) { p.qa.post(send()) }, ""},
		"wrong index":     {wrong(func(w []byte) { w[2] = 9 }), "index is 0x9"},
		"wrong QP":        {wrong(func(w []byte) { w[6]++ }), "is of QP"},
		"no length":       {wrong(func(w []byte) { w[7] = 0 }), "has no segments"},
		"too long":        {wrong(func(w []byte) { w[7]++ }), "0 bytes"},
		"inline data cut": {wrong(func(w []byte) { w[19] = 30 }), "its segments have 64 bytes"},
		"cut":             {wrong(func(w []byte) { w[7] = 1; w[3] = prm.WQEWrite }), "in 16 bytes"},
		"longer than it":  {wrong(func(w []byte) { w[7] = 9 }), "has 3 WQEBBs, but 1 are posted"},
		"reserved bits":   {wrong(func(w []byte) { w[7] |= 0x40 }), "reserved bits"},
		"reserved flag":   {wrong(func(w []byte) { w[11] |= 0x10 }), "reserved bits"},
		"no operation":    {wrong(func(w []byte) { w[3] = 0x77 }), "operation 0x77"},
		"doorbell before WQE": {func(p *pair) {
			last := append([]byte(nil), p.qa.put(send())...)
			clear(p.a.bytes(p.qa.sq, 64))
			record(p, p.qa.pi)
			ring(p, last)
		}, "in memory is"},
		"stale doorbell record": {func(p *pair) { ring(p, p.qa.put(send())) }, "doorbell record has 0x0"},
		"past the queue": {func(p *pair) {
			last := p.qa.put(send())
			record(p, 65)
			ring(p, last)
		}, "65 WQEBBs are posted"},
		"too many receives": {func(p *pair) {
			be.PutUint32(p.b.bytes(p.qb.record, 4), 17)
			p.qa.post(send())
		}, "17 receives are posted"},
		"page of another": {func(p *pair) {
			p.a.uar = p.a.object(prm.OpAllocUAR)
			p.qa.post(send())
		}, "is not the QP's"},
		"no such page": {func(p *pair) { p.a.uar += 100; p.qa.post(send()) }, "there is no such page"},
		"page of a removed driver": {func(p *pair) {
			p.a.d.SetRemoving(true)
			p.a.uar += 100
			p.qa.post(send())
		}, ""},
		"after a removal": {func(p *pair) {
			p.a.d.SetRemoving(true)
			p.a.d.SetRemoving(false)
			p.a.uar += 100
			p.qa.post(send())
		}, "there is no such page"},
		"CQ armed with a stale record": {func(p *pair) {
			p.qa.post(request1(prm.WQEWrite, signaled, 0).remote(memoryBase, p.b.key).inline([]byte("x")))
			p.qa.send.want(prm.CQEReq, nil)
			p.a.d.Ring(p.a.uar, RegisterCQ, be.AppendUint32(be.AppendUint32(nil, 1<<28|1), p.qa.send.n))
		}, "its doorbell record has"},
		"CQ armed ahead": {func(p *pair) { p.qa.send.ci = 7; p.qa.send.arm(0) }, "armed at 0x7"},
		"reserved in a context": {func(p *pair) {
			p.a.command(prm.OpCreateCQ, 0x110, nil, func(in []byte) { prm.CQIn.Context.Of(in)[0x33] = 1 })
		}, "reserved bits"},
		"UMR of what no key has": {func(p *pair) {
			p.qa.post(umrWQE(p.a.emptyKey(prm.AccessMTT, 4, nil), func(ctrl, c []byte) { prm.UMRCtrl.Mask.Set(ctrl, 1<<63) }, nil))
		}, "which no key has"},
		"remote address segment": {wrong(func(w []byte) {
			w[3], w[7] = prm.WQEWrite, 2
			clear(w[16:])
			w[31] = 1
		}), "last dword is reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, prm.ServiceRC, nil)
			p.a.tolerant, p.b.tolerant = true, true
			tc.do(p)
			all := append(p.a.violated(), p.b.violated()...)
			if tc.want == "" {
				if len(all) > 0 {
					t.Errorf("violations = %v, want none", all)
				}
				return
			}
			for _, v := range all {
				if strings.Contains(v.Error(), tc.want) {
					return
				}
			}
			t.Errorf("violations = %v, want one with %q", all, tc.want)
		})
	}
}

// TestTolerant makes a violation that a card does not detect, on a device that is not strict.
func TestTolerant(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	p.a.d.cfg.Violation = nil
	p.qb.receive(p.b.alloc(64), 64)
	w := request1(prm.WQESend, signaled, 0).inline([]byte("x"))
	w.b[11] |= 0x10
	p.qa.post(w)
	p.qa.send.want(prm.CQEReq, nil)
}

// TestBlueFlame copies a request in stores of 8 bytes, like a virtual machine. A NOP is
// executed as in the copy.
func TestBlueFlame(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	copyOut := func(w []byte) {
		line := append(w, make([]byte, 64)...)[:64]
		p.locked(func() { // timers do not expire
			for off := 0; off < 64; off += 8 {
				p.a.d.ring(p.a.uar, RegisterSend+p.qa.bf+off, line[off:off+8])
			}
		})
		p.qa.bf ^= sendSize
	}
	be.PutUint32(p.a.bytes(p.qa.record+4, 4), 1)
	nop := append([]byte(nil), p.qa.put(request1(prm.WQENop, 0, 0))...)
	nop[11] = signaled
	copyOut(nop)
	p.qa.send.want(prm.CQEReq, map[*prm.Field]uint64{&prm.CQE.WQECounter: 0})
	// Without the rest of the copy, the request in memory is executed.
	p.qa.post(request1(prm.WQENop, signaled, 0))
	p.completion(p.qa.send)
	p.qb.receive(p.b.alloc(64), 64)
	be.PutUint32(p.a.bytes(p.qa.record+4, 4), 3)
	copyOut(p.qa.put(request1(prm.WQESend, signaled, 0).inline([]byte("by BlueFlame"))))
	p.qa.send.want(prm.CQEReq, map[*prm.Field]uint64{&prm.CQE.WQECounter: 2})
	// A copy in one store.
	p.qb.receive(p.b.alloc(64), 64)
	be.PutUint32(p.a.bytes(p.qa.record+4, 4), 4)
	last := p.qa.put(request1(prm.WQESend, signaled, 0).inline([]byte("by BlueFlame")))
	p.a.d.Ring(p.a.uar, RegisterSend, append(last, make([]byte, 64-len(last))...))
	p.qa.send.want(prm.CQEReq, map[*prm.Field]uint64{&prm.CQE.WQECounter: 3})
}
