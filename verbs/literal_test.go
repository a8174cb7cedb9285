// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"testing"

	"purerdma/verbs"
)

// TestLiteralsDoNotAllocate posts literals, whose memory must stay on the caller's stack.
func TestLiteralsDoNotAllocate(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{SendWR: 400, RecvWR: 400})
		srq, err := l.pd.CreateSRQ(verbs.SRQConfig{MaxWR: 400})
		if err != nil {
			t.Fatalf("PD.CreateSRQ: %v", err)
		}
		closer(t, srq)
		sge := r.buf.Slice(0, 64)
		for name, post := range map[string]func() (int, error){
			"QP.PostRecv": func() (int, error) {
				return r.qp.PostRecv([]verbs.RecvWR{{ID: 1, SGList: []verbs.SGE{sge}}})
			},
			"SRQ.PostRecv": func() (int, error) {
				return srq.PostRecv([]verbs.RecvWR{{ID: 1, SGList: []verbs.SGE{sge}}})
			},
			"QP.PostSend": func() (int, error) {
				return l.qp.PostSend([]verbs.SendWR{{ID: 1, Opcode: verbs.OpWrite, RemoteAddr: sge.Addr, RKey: r.buf.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, 8)}}})
			},
		} {
			n := testing.AllocsPerRun(100, func() {
				if n, err := post(); n != 1 || err != nil {
					t.Fatalf("%s = %d, %v, want 1, nil", name, n, err)
				}
			})
			if n != 0 {
				t.Errorf("%s of a literal allocates %v times, want 0", name, n)
			}
		}
	})
}
