// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"testing"
	"time"

	"purerdma/verbs"
)

// TestVMDrain drains the send queue of a QP and then continues. Requests in progress finish,
// and an event reports the drained queue. Requests that are posted in the meantime wait. They
// start after the return to RTS, without another request. The peer's messages are received all
// the time.
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
					t.Errorf("event = %+v, want one of QP %p", ev, l.qp)
				}
				if a, err := l.qp.Query(); err != nil || a.State != verbs.QPSQD || a.SQDraining || l.qp.State() != verbs.QPSQD {
					t.Errorf("State() = %v, Query = %v, draining %v, %v, want SQD, not draining", l.qp.State(), a.State, a.SQDraining, err)
				}
				// Requests that the device had not begun wait, and so do new requests.
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
					t.Errorf("%d of %d requests completed before the drain ended, then %+v, want none", len(done), begun, more)
				}
				modify(t, l.qp, verbs.QPAttr{State: verbs.QPRTS}, verbs.QPAttrState)
				if a, err := l.qp.Query(); err != nil || a.State != verbs.QPRTS || a.SQDraining {
					t.Errorf("Query after the return to RTS = %v, draining %v, %v, want RTS, not draining", a.State, a.SQDraining, err)
				}
				l.ok(t, n-len(done))
				for id, wc := range r.ok(t, n-len(done)) {
					if id != uint64(wc.ImmData) {
						t.Errorf("message of receive %d = %d, want the same number", id, wc.ImmData)
					}
				}
			}
		})
	}
}

// unasked skips the event that rxe also reports to programs that have not requested it.
func unasked(t *testing.T, events *verbs.AsyncEvents) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if ev, err := events.Next(ctx); err == nil {
		t.Logf("unrequested event %v", ev.Type)
	}
}

// finished returns the available completions, without waiting.
func finished(t *testing.T, e *end) []verbs.WC {
	t.Helper()
	wcs := make([]verbs.WC, 256)
	n, err := e.cq.Poll(wcs)
	if err != nil {
		t.Fatalf("CQ.Poll: %v", err)
	}
	for _, wc := range wcs[:n] {
		if wc.Err() != nil {
			t.Errorf("completion = %+v, want success", wc)
		}
	}
	return wcs[:n]
}
