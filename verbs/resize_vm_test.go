// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"net"
	"testing"

	"purerdma/verbs"
)

// TestVMResizeCQ changes the size of a CQ with completions several times, while other
// goroutines wait for it.
func TestVMResizeCQ(t *testing.T) {
	fullRoutes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		write := func(ids ...uint64) {
			for _, id := range ids {
				l.send(t, verbs.SendWR{ID: id, Opcode: verbs.OpWrite, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), InlineData: []byte("x"), Flags: verbs.SendSignaled})
			}
		}
		wcs := make([]verbs.WC, 1)
		id := uint64(1)
		take := func(n int) {
			t.Helper()
			for range n {
				if _, err := l.cq.Wait(deadline(t), wcs); err != nil || wcs[0].ID != id || wcs[0].Err() != nil {
					t.Fatalf("Wait = %+v, %v, want success of ID %d", wcs[0], err, id)
				}
				id++
			}
		}
		write(1, 2, 3, 4, 5)
		take(2)
		for _, n := range []int{1000, 10, 5000} {
			if err := l.cq.Resize(n); err != nil {
				t.Fatalf("CQ.Resize: %v", err)
			}
			if l.cq.Entries() < n || l.cq.Entries() > 4*n {
				t.Errorf("Entries() after Resize(%d) = %d, want %d to %d", n, l.cq.Entries(), n, 4*n)
			}
		}
		write(6, 7)
		take(5)
		cq, err := l.dev.CreateCQ(verbs.CQConfig{NoEvents: true})
		if err != nil {
			t.Fatalf("Device.CreateCQ: %v", err)
		}
		if err := cq.Close(); err != nil {
			t.Fatalf("CQ.Close: %v", err)
		}
		if err := cq.Resize(10); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Resize of a closed CQ = %v, want net.ErrClosed", err)
		}
		if err := l.cq.Moderate(10, 0); rt.mlx5 {
			if err != nil {
				t.Errorf("CQ.Moderate(10, 0): %v", err)
			}
		} else if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("CQ.Moderate(10, 0) = %v, want errors.ErrUnsupported", err)
		}
	})
}
