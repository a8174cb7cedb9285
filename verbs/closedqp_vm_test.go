// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"slices"
	"testing"

	"purerdma/abi"
	"purerdma/verbs"
)

// TestVMClosedQP closes a QP with unpolled completions on a shared CQ. The next QP on that CQ,
// which has the same number on siw, gets only its own completions.
func TestVMClosedQP(t *testing.T) {
	fullRoutes(t, func(t *testing.T, rt *route) {
		stays := newEnd(t, rt.h, rt.b, verbs.QPCap{})
		sibling := func() *end {
			e := *stays
			var err error
			if e.qp, err = e.pd.CreateQP(verbs.QPConfig{SendCQ: e.cq, RecvCQ: e.cq}); err != nil {
				t.Fatalf("PD.CreateQP: %v", err)
			}
			closer(t, e.qp)
			return &e
		}
		// When the READ completes, the receive is in the peer's CQ.
		message := func(l, r *end, id uint64) {
			t.Helper()
			r.recv(t, verbs.RecvWR{ID: id, SGList: []verbs.SGE{r.buf.Slice(0, 64)}})
			l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{l.buf.Slice(0, 64)}},
				verbs.SendWR{ID: 2, Opcode: verbs.OpRead, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{l.buf.Slice(64, 64)}})
			l.ok(t, 2)
		}
		peer := func(r *end) *end {
			l := newEnd(t, rt.h, rt.a, verbs.QPCap{})
			connect(t, l, r)
			return l
		}

		goes := sibling()
		toStays, toGoes := peer(stays), peer(goes)
		message(toStays, stays, 10)
		message(toGoes, goes, 20)
		message(toStays, stays, 11)
		message(toGoes, goes, 21)
		goes.recv(t, verbs.RecvWR{ID: 22}, verbs.RecvWR{ID: 23}) // siw flushes them
		if err := goes.qp.Close(); err != nil {
			t.Fatalf("QP.Close: %v", err)
		}
		next := sibling()
		driver := next.dev.DriverID()
		if driver == abi.RDMA_DRIVER_SIW && next.qp.Num() != goes.qp.Num() {
			t.Errorf("number of the next QP = %d, want %d as on siw: the test shows nothing", next.qp.Num(), goes.qp.Num())
		}
		message(peer(next), next, 30)

		var got []uint64
		wcs := make([]verbs.WC, 4)
		for ctx := deadline(t); !slices.Contains(got, 30); {
			n, err := stays.cq.Wait(ctx, wcs)
			if err != nil {
				t.Fatalf("after %v: CQ.Wait: %v", got, err)
			}
			for _, wc := range wcs[:n] {
				if driver == abi.RDMA_DRIVER_RXE && wc.QPNum == goes.qp.Num() && wc.QPNum != next.qp.Num() {
					continue // rxe does not remove it
				}
				want := stays
				if wc.ID >= 20 {
					want = next
				}
				if wc.Err() != nil || wc.QPNum != want.qp.Num() {
					t.Errorf("completion = %+v, want success of QP %d", wc, want.qp.Num())
				}
				got = append(got, wc.ID)
			}
		}
		if !slices.Equal(got, []uint64{10, 11, 30}) {
			t.Errorf("completed IDs = %v, want [10 11 30]", got)
		}
	})
}
