// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"testing"

	"purerdma/verbs"
)

func TestRecvBatch(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{RecvWR: 15, RecvSGE: 2})
		var b verbs.RecvBatch
		for round := range 3 {
			b.Reset()
			most := r.qp.Cap().RecvWR
			for i := range most + 1 {
				b.Add(uint64(i), r.buf.Slice(16*i, 1), r.buf.Slice(16*i+8, 8))
			}
			if n, err := r.qp.PostRecv(b.WRs()); n != most || !errors.Is(err, verbs.ErrFull) {
				t.Fatalf("PostRecv() of %d = %d, %v, want %d, %v", most+1, n, err, most, verbs.ErrFull)
			}
			for i := range most {
				l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: []byte{byte(round), byte(i), 7}})
				l.ok(t, 1)
				wc := r.ok(t, 1)
				if _, posted := wc[uint64(i)]; !posted || r.buf.Bytes()[16*i] != byte(round) || r.buf.Bytes()[16*i+8] != byte(i) {
					t.Fatalf("round %d: completion of message %d = %+v, or its bytes differ", round, i, wc)
				}
			}
		}
		b.Reset()
		add := func() {
			b.Reset()
			for i := range 8 {
				b.Add(uint64(i), r.buf.Slice(16*i, 1), r.buf.Slice(16*i+8, 8))
			}
		}
		if n := testing.AllocsPerRun(100, add); n != 0 {
			t.Errorf("Add: %v allocations, want 0", n)
		}
	})
}
