// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"slices"
	"sync"
	"testing"

	"purerdma/abi"
	"purerdma/verbs"
)

// TestVMDropped closes a QP of an SRQ before its receives were polled. mlx5 and siw drop them, and
// rxe leaves them in the CQ.
func TestVMDropped(t *testing.T) {
	fullRoutes(t, func(t *testing.T, rt *route) {
		var mu sync.Mutex
		var dropped []uint64
		_, pd := openPD(t, rt.h, rt.b.Device)
		srq, err := pd.CreateSRQ(verbs.SRQConfig{MaxWR: 8, Dropped: func(id uint64) {
			mu.Lock()
			defer mu.Unlock()
			dropped = append(dropped, id)
		}})
		if err != nil {
			t.Fatalf("PD.CreateSRQ: %v", err)
		}
		closer(t, srq)
		l, r := newEnd(t, rt.h, rt.a, verbs.QPCap{}), newEndWith(t, rt.h, rt.b, verbs.QPConfig{SRQ: srq})
		connect(t, l, r)
		for id := range uint64(4) {
			if _, err := srq.PostRecv([]verbs.RecvWR{{ID: id, SGList: []verbs.SGE{r.buf.Slice(0, 64)}}}); err != nil {
				t.Fatalf("SRQ.PostRecv: %v", err)
			}
		}
		message := verbs.SendWR{Opcode: verbs.OpSend, SGList: []verbs.SGE{l.buf.Slice(0, 64)}}
		// When the READ completes, the receives are in the peer's CQ.
		l.send(t, message, message, message, verbs.SendWR{ID: 1, Opcode: verbs.OpRead, Flags: verbs.SendSignaled,
			RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{l.buf.Slice(64, 64)}})
		l.ok(t, 1)
		if err := r.qp.Close(); err != nil {
			t.Fatalf("QP.Close: %v", err)
		}
		got, name := dropped, "dropped receives"
		if r.dev.DriverID() == abi.RDMA_DRIVER_RXE {
			if len(dropped) != 0 {
				t.Errorf("dropped receives = %v, want none on rxe", dropped)
			}
			wcs := make([]verbs.WC, 8)
			n, err := r.cq.Poll(wcs)
			if err != nil {
				t.Fatalf("CQ.Poll: %v", err)
			}
			got, name = nil, "polled receives"
			for _, wc := range wcs[:n] {
				got = append(got, wc.ID)
			}
		}
		if want := []uint64{0, 1, 2}; !slices.Equal(got, want) {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	})
}
