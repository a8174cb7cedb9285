// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"errors"
	"strings"
	"testing"

	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
)

func TestErrorNamesTheEntry(t *testing.T) {
	r := newCQRig(t, provider.CQConfig{})
	q := r.qp(provider.RC, nil)
	r.put(q.sendCQE(q.sendPosted(5, 0), opcodeSend), &mlx5test.CQE{UserIndex: 0x123456}, q.sendCQE(q.sendPosted(6, 0), opcodeSend))
	if wc := r.pollSome(); len(wc) != 1 || wc[0].ID != 5 {
		t.Fatalf("before the impossible one: %+v", wc)
	}
	for range 2 {
		n, err := r.cq.Poll(make([]provider.WC, 4))
		var bad *CQEError
		if n != 0 || !errors.As(err, &bad) || bad.CQ != r.cq.num || bad.CQE[33] != 0x12 || !strings.Contains(err.Error(), "no queue has the user index") {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if err := r.cq.Resize(100); err == nil {
		t.Error("a CQ that has failed was resized")
	}
}

// TestImpossible has each kind of entry that makes no sense end the CQ.
func TestImpossible(t *testing.T) {
	for name, tc := range map[string]func(r *cqRig, q, onSRQ *QP) *mlx5test.CQE{
		"unknown opcode":              func(r *cqRig, q, _ *QP) *mlx5test.CQE { return &mlx5test.CQE{Opcode: 7, UserIndex: q.index} },
		"signature error":             func(r *cqRig, q, _ *QP) *mlx5test.CQE { return &mlx5test.CQE{Opcode: 12, UserIndex: q.index} },
		"end of a resize":             func(r *cqRig, q, _ *QP) *mlx5test.CQE { return &mlx5test.CQE{Opcode: 5, UserIndex: q.index} },
		"user index of nobody":        func(r *cqRig, q, _ *QP) *mlx5test.CQE { return &mlx5test.CQE{UserIndex: 0xffffff} },
		"failed request of nobody":    func(r *cqRig, q, _ *QP) *mlx5test.CQE { return &mlx5test.CQE{Opcode: 13, UserIndex: 0x1000} },
		"request that was not posted": func(r *cqRig, q, _ *QP) *mlx5test.CQE { return q.sendCQE(1, opcodeSend) },
		"request of another round":    func(r *cqRig, q, _ *QP) *mlx5test.CQE { return q.sendCQE(63, opcodeSend) },
		"failed request that was not there": func(r *cqRig, q, _ *QP) *mlx5test.CQE {
			return &mlx5test.CQE{Opcode: 13, UserIndex: q.index, WQECounter: 9}
		},
		"receive that was not posted": func(r *cqRig, q, _ *QP) *mlx5test.CQE { return q.recvCQE(1) },
		"receive before":              func(r *cqRig, q, _ *QP) *mlx5test.CQE { return q.recvCQE(0xffff) },
		"failed receive that was not there": func(r *cqRig, q, _ *QP) *mlx5test.CQE {
			return &mlx5test.CQE{Opcode: 14, UserIndex: q.index, WQECounter: 9}
		},
		"receive of an SRQ that is free": func(r *cqRig, _, q *QP) *mlx5test.CQE { return q.recvCQE(3) },
		"receive beyond an SRQ":          func(r *cqRig, _, q *QP) *mlx5test.CQE { return q.recvCQE(0xffff) },
		"page fault of no receive": func(r *cqRig, _, q *QP) *mlx5test.CQE {
			return &mlx5test.CQE{Opcode: 14, UserIndex: q.index, Syndrome: 0x22, VendorSyndrome: 0x93, WQECounter: 5}
		},
		"page fault beyond an SRQ": func(r *cqRig, _, q *QP) *mlx5test.CQE {
			return &mlx5test.CQE{Opcode: 14, UserIndex: q.index, Syndrome: 0x22, VendorSyndrome: 0x93, WQECounter: 16}
		},
		"receive just beyond an SRQ": func(r *cqRig, _, q *QP) *mlx5test.CQE { return q.recvCQE(16) },
		"compressed, unasked": func(r *cqRig, q, _ *QP) *mlx5test.CQE {
			return &mlx5test.CQE{Format: 3, UserIndex: q.index, ByteCount: 2}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newCQRig(t, provider.CQConfig{})
			srq := r.srq(provider.SRQConfig{MaxWR: 4, MaxSGE: 1})
			q, onSRQ := r.qp(provider.RC, nil), r.qp(provider.RC, srq)
			// One of each is posted, so that the queues are not empty.
			q.sendPosted(1, 0)
			q.recvPosted(t, 1)
			r.postSRQ(srq, 1)
			r.put(tc(r, q, onSRQ))
			_, err := r.cq.Poll(make([]provider.WC, 4))
			if bad := new(CQEError); !errors.As(err, &bad) {
				t.Fatalf("%v", err)
			}
		})
	}
}
