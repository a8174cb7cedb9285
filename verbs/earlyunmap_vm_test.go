// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"bytes"
	"runtime"
	"testing"

	"purerdma/verbs"
)

// TestVMTwoRegistrations registers a part of memory from Alloc a second time. Whichever MR is
// closed first, the memory must stay mapped for the other MR and for the peer.
func TestVMTwoRegistrations(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		for _, firstCloses := range []bool{true, false} {
			first, err := r.pd.Alloc(1<<16, everything)
			if err != nil {
				t.Fatalf("PD.Alloc: %v", err)
			}
			defer first.Close()
			second, err := r.pd.RegMR(first.Bytes()[5000:9000], everything)
			if err != nil {
				t.Fatalf("PD.RegMR: %v", err)
			}
			defer second.Close()
			copy(second.Bytes(), "before")
			closes, stays := first, second
			if !firstCloses {
				closes, stays = second, first
			}
			if err := closes.Close(); err != nil {
				t.Fatalf("MR.Close: %v", err)
			}
			if closes.Bytes() != nil {
				t.Error("Bytes() of a closed MR is not nil")
			}
			// Memory that had been unmapped would now belong to another mapping, or to none.
			if other, err := r.pd.Alloc(1<<16, everything); err != nil {
				t.Fatalf("PD.Alloc: %v", err)
			} else {
				closer(t, other)
				fill(other.Bytes(), 77)
			}
			runtime.GC()
			off := 0 // offset of the second MR's first byte
			if !firstCloses {
				off = 5000
			}
			if got := stays.Bytes()[off:][:6]; !bytes.Equal(got, []byte("before")) {
				t.Errorf("first closes %v: memory = %q, want \"before\"", firstCloses, got)
			}
			fill(l.buf.Bytes()[:4000], 9)
			l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, Flags: verbs.SendSignaled,
				RemoteAddr: stays.Addr() + uint64(off), RKey: stays.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, 4000)}})
			l.written(t, stays)
			if !bytes.Equal(stays.Bytes()[off:][:4000], l.buf.Bytes()[:4000]) {
				t.Errorf("first closes %v: the bytes that the peer wrote are missing", firstCloses)
			}
			if err := stays.Close(); err != nil {
				t.Errorf("MR.Close: %v", err)
			}
		}
	})
}
