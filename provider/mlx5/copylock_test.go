// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package mlx5

import (
	"testing"

	"purerdma/provider"
	"purerdma/provider/mlx5/mlx5test"
)

// TestCopyHoldsLock copies data of completions into the word of the CQ's lock, which must be
// locked then. The release of the lock sets the word to 0. Without a lock, the data would stay
// in the word. The test also covers CQs whose polls otherwise take no lock.
func TestCopyHoldsLock(t *testing.T) {
	for _, unlocked := range []bool{false, true} {
		r := newCQRig(t, provider.CQConfig{Unlocked: unlocked})
		q := r.qp(provider.RC, nil)
		srq := r.srq(provider.SRQConfig{MaxWR: 10, MaxSGE: 1})
		onSRQ := r.qp(provider.RC, srq)
		word := r.overlay(r.cq.lock.Word())
		// receive completes a receive of q with data.
		receive := func() *mlx5test.CQE { return q.recvCQE(q.recvPosted(t, 5, word)) }
		for _, tc := range []struct {
			name string
			cqe  func() *mlx5test.CQE
		}{
			{"first receive", receive},
			{"receive like the one before", receive},
			{"READ", func() *mlx5test.CQE { return q.sendCQE(q.readWQE(opcodeRead, 5, word), opcodeRead) }},
			{"receive of an SRQ", func() *mlx5test.CQE { return onSRQ.recvCQE(r.postSRQ(srq, 5, word)) }},
		} {
			e := tc.cqe()
			e.Format, e.ByteCount, e.Data = formatScatter32, 4, pattern(4)
			r.put(e)
			if got := r.one(); got.ID != 5 || got.Status != provider.WCSuccess {
				t.Errorf("%s: %+v, want success of request 5", tc.name, got)
			}
			if got := *r.cq.lock.Word(); got != 0 {
				t.Errorf("%s, Unlocked %v: data were copied without the lock, word %#x", tc.name, unlocked, got)
				*r.cq.lock.Word() = 0
			}
		}
	}
}
