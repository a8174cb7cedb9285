// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"fmt"
	"slices"
	"testing"

	"purerdma/verbs"
)

// TestVMOwnCQs posts as many requests as Cap allows to QPs that have CQs of their own, before any
// completion is polled. No completion is lost.
func TestVMOwnCQs(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		for _, n := range []int{128, 200} {
			t.Run(fmt.Sprint(n), func(t *testing.T) { testOwnCQs(t, rt, n, false) })
			t.Run(fmt.Sprint(n, " with one CQ"), func(t *testing.T) { testOwnCQs(t, rt, n, true) })
		}
	})
}

func testOwnCQs(t *testing.T, rt *route, n int, one bool) {
	l, r := newEnd(t, rt.h, rt.a, verbs.QPCap{}), newEnd(t, rt.h, rt.b, verbs.QPCap{})
	for _, e := range []*end{l, r} {
		var err error
		if e.qp, err = e.pd.CreateQP(verbs.QPConfig{Cap: verbs.QPCap{SendWR: n, RecvWR: n}, OneCQ: one}); err != nil {
			t.Fatalf("PD.CreateQP: %v", err)
		}
		closer(t, e.qp)
		c := e.qp.Cap()
		if c.SendWR < n || c.RecvWR < n || c.SendWR > e.qp.SendCQ().Entries() || c.RecvWR > e.qp.RecvCQ().Entries() {
			t.Errorf("Cap() = %+v with CQs of %d and %d entries, want %d requests or more, which fit",
				c, e.qp.SendCQ().Entries(), e.qp.RecvCQ().Entries(), n)
		}
		if got := e.qp.SendCQ() == e.qp.RecvCQ(); got != one {
			t.Errorf("CreateQP with OneCQ %t: one CQ for both is %t", one, got)
		}
		if all := c.SendWR + c.RecvWR; one && all > e.qp.SendCQ().Entries() {
			t.Errorf("Cap() = %+v with one CQ of %d entries, want requests that fit", c, e.qp.SendCQ().Entries())
		}
	}
	connect(t, l, r)
	l.cq, r.cq = l.qp.SendCQ(), r.qp.RecvCQ()
	receives := make([]verbs.RecvWR, r.qp.Cap().RecvWR)
	for i := range receives {
		receives[i].ID = uint64(i)
	}
	most := min(l.qp.Cap().SendWR, len(receives))
	sends := slices.Repeat([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled}}, most)
	for i := range sends {
		sends[i].ID = uint64(i)
	}
	r.recv(t, receives...)
	l.send(t, sends...)
	r.ok(t, most)
	l.ok(t, most)

	r.recv(t, receives[:most]...)
	modify(t, r.qp, verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
	for id, wc := range r.collect(t, len(receives)) {
		if wc.Status != verbs.WCWRFlushErr {
			t.Errorf("receive %d completed with status %v, want %v", id, wc.Status, verbs.WCWRFlushErr)
		}
	}
}

// TestVMOwnCQWithSRQ makes a QP with CQs of its own on a large SRQ. All receives of the SRQ may
// complete on the QP.
func TestVMOwnCQWithSRQ(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		_, pd := openPD(t, rt.h, rt.a.Device)
		srq, err := pd.CreateSRQ(verbs.SRQConfig{MaxWR: 1000})
		if err != nil {
			t.Fatalf("PD.CreateSRQ: %v", err)
		}
		closer(t, srq)
		qp, err := pd.CreateQP(verbs.QPConfig{SRQ: srq})
		if err != nil {
			t.Fatalf("PD.CreateQP: %v", err)
		}
		closer(t, qp)
		if got, want := qp.RecvCQ().Entries(), srq.Attr().MaxWR; got < want {
			t.Errorf("RecvCQ().Entries() = %d, want at least %d as the SRQ has", got, want)
		}
	})
}
