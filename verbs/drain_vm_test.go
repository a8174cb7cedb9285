// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"testing"
	"time"

	"purerdma/verbs"
)

// TestVMDrain has a QP drain its send queue and go on: what is under way is finished, an
// event says so, what is posted meanwhile waits, and comes without another request after it.
// What the peer sends is received all the time.
func TestVMDrain(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		t.Run(typ.String(), func(t *testing.T) {
			rt := vmWire(t)
			l, r := newEndWith(t, rt.h, rt.a, verbs.QPConfig{Type: typ}), newEndWith(t, rt.h, rt.b, verbs.QPConfig{Type: typ})
			connect(t, l, r)
			events := l.watch(t)
			message := func(from, to *end, id uint64) verbs.SendWR {
				wr := verbs.SendWR{ID: id, Opcode: verbs.OpSendImm, ImmData: uint32(id), Flags: verbs.SendSignaled, SGList: []verbs.SGE{from.buf.Slice(0, 1000)}}
				if typ == verbs.UD {
					wr.AH, wr.RemoteQPN, wr.RemoteQKey = from.ah(t, from.to(to.gid)), to.qp.Num(), qkey
				}
				return wr
			}
			at := func(e *end, off int) []verbs.SGE { return []verbs.SGE{e.buf.Slice(off, 2000)} }
			for _, begun := range []int{0, 1, 20} {
				const held, other, last = 3, 100, 101
				n := begun + held
				for i := range n {
					r.recv(t, verbs.RecvWR{ID: uint64(i), SGList: at(r, 0)})
				}
				l.recv(t, verbs.RecvWR{ID: other, SGList: at(l, 2000)})
				for i := range begun {
					l.send(t, message(l, r, uint64(i)))
				}
				modify(t, l.qp, verbs.QPAttr{State: verbs.QPSQD, EnSQDAsyncNotify: begun > 0}, verbs.QPAttrState|verbs.QPAttrEnSQDAsyncNotify)
				if begun == 0 {
					unasked(t, events)
				} else if ev := expect(t, events, verbs.AsyncSQDrained); ev.QP != l.qp {
					t.Errorf("the event is about %p, want %p: %+v", ev.QP, l.qp, ev)
				}
				if a, err := l.qp.Query(); err != nil || a.State != verbs.QPSQD || a.SQDraining || l.qp.State() != verbs.QPSQD {
					t.Errorf("state %v, %v by Query, draining %v: %v", l.qp.State(), a.State, a.SQDraining, err)
				}
				// What the device had not begun waits, as what comes now does.
				for i := begun; i < n; i++ {
					l.send(t, message(l, r, uint64(i)))
				}
				time.Sleep(20 * time.Millisecond)
				done := finished(t, l)
				r.send(t, message(r, l, last))
				r.ok(t, len(done)+1)
				l.ok(t, 1)
				time.Sleep(20 * time.Millisecond)
				if more := append(finished(t, l), finished(t, r)...); len(more) > 0 || len(done) > begun {
					t.Errorf("%d of %d were done when it had drained, and then %+v", len(done), begun, more)
				}
				modify(t, l.qp, verbs.QPAttr{State: verbs.QPRTS}, verbs.QPAttrState)
				if a, err := l.qp.Query(); err != nil || a.State != verbs.QPRTS || a.SQDraining {
					t.Errorf("going on, it is in %v, draining %v: %v", a.State, a.SQDraining, err)
				}
				l.ok(t, n-len(done))
				for id, wc := range r.ok(t, n-len(done)) {
					if id != uint64(wc.ImmData) {
						t.Errorf("receive %d has message %d", id, wc.ImmData)
					}
				}
			}
		})
	}
}

// unasked takes the event that rxe has for those, too, who have not asked for it.
func unasked(t *testing.T, events *verbs.AsyncEvents) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if ev, err := events.Next(ctx); err == nil {
		t.Logf("nobody has asked for %v", ev.Type)
	}
}

// finished returns what has completed, without waiting.
func finished(t *testing.T, e *end) []verbs.WC {
	t.Helper()
	wcs := make([]verbs.WC, 256)
	n, err := e.cq.Poll(wcs)
	if err != nil {
		t.Fatal(err)
	}
	for _, wc := range wcs[:n] {
		if wc.Err() != nil {
			t.Errorf("%+v", wc)
		}
	}
	return wcs[:n]
}
