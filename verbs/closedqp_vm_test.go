// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"slices"
	"testing"

	"purerdma/abi"
	"purerdma/verbs"
)

// TestVMClosedQP closes a QP whose completions nobody has polled, on a CQ that it
// shares. The next QP there, which on siw has the same number, has only its own.
func TestVMClosedQP(t *testing.T) {
	fullRoutes(t, func(t *testing.T, rt *route) {
		stays := newEnd(t, rt.h, rt.b, verbs.QPCap{})
		sibling := func() *end {
			e := *stays
			var err error
			if e.qp, err = e.pd.CreateQP(verbs.QPConfig{SendCQ: e.cq, RecvCQ: e.cq}); err != nil {
				t.Fatal(err)
			}
			closer(t, e.qp)
			return &e
		}
		// When the READ is done, the receive stands in the peer's CQ.
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
			t.Fatal(err)
		}
		next := sibling()
		driver := next.dev.DriverID()
		if driver == abi.RDMA_DRIVER_SIW && next.qp.Num() != goes.qp.Num() {
			t.Errorf("QP %d after %d: the test shows nothing", next.qp.Num(), goes.qp.Num())
		}
		message(peer(next), next, 30)

		var got []uint64
		wcs := make([]verbs.WC, 4)
		for ctx := deadline(t); !slices.Contains(got, 30); {
			n, err := stays.cq.Wait(ctx, wcs)
			if err != nil {
				t.Fatalf("after %v: %v", got, err)
			}
			for _, wc := range wcs[:n] {
				if driver == abi.RDMA_DRIVER_RXE && wc.QPNum == goes.qp.Num() && wc.QPNum != next.qp.Num() {
					continue // rxe leaves it there
				}
				want := stays
				if wc.ID >= 20 {
					want = next
				}
				if wc.Err() != nil || wc.QPNum != want.qp.Num() {
					t.Errorf("%+v, want it of QP %d", wc, want.qp.Num())
				}
				got = append(got, wc.ID)
			}
		}
		if !slices.Equal(got, []uint64{10, 11, 30}) {
			t.Errorf("completions of %v", got)
		}
	})
}
