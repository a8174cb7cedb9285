// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"sync"
	"testing"

	"purerdma/provider"
	"purerdma/provider/internal/spin"
)

// TestCountsOfUnlocked reads the counts of a QP and a CQ without locks while a goroutine uses them. The race
// detector must find nothing.
func TestCountsOfUnlocked(t *testing.T) {
	r := newSendRig(t, nil)
	cfg := r.config(provider.RC)
	cfg.Unlocked = true
	q, _ := r.qp(cfg)
	const posts = 200
	var wg sync.WaitGroup
	wg.Go(func() {
		for range posts {
			post(t, q, provider.SendWR{Opcode: provider.OpSend, InlineData: []byte("four")})
			spin.StoreRelease(&q.sq.tail, q.sq.head)
		}
	})
	for last := uint64(0); last < posts; {
		n := q.Stats().Sends[provider.OpSend].Operations
		if n < last || n > posts {
			t.Fatalf("QP.Stats = %d operations after %d, want at most %d", n, last, posts)
		}
		last = n
		_ = q.sendCQ.Counts()
	}
	wg.Wait()
	if got, want := q.Stats().Sends[provider.OpSend], (provider.Count{Operations: posts, Bytes: 4 * posts}); got != want {
		t.Errorf("QP.Stats = %+v SENDs, want %+v", got, want)
	}
}
