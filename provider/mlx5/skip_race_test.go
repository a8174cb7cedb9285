// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"purerdma/provider"
)

// TestSkippedDuringPolls has three goroutines poll one CQ while invalid entries fail one QP
// again and again. Each request of this QP and of the other QP completes exactly once.
func TestSkippedDuringPolls(t *testing.T) {
	r := newSkipRig(t, Driver{}, nil)
	var mu sync.Mutex
	completed := map[uint32]map[uint64]int{}
	var total atomic.Int64
	var stop atomic.Bool
	var pollers sync.WaitGroup
	for range 3 {
		pollers.Go(func() {
			wcs := make([]provider.WC, 3)
			for !stop.Load() {
				n, err := r.cq.Poll(wcs)
				if err != nil {
					t.Errorf("CQ.Poll: %v", err)
					return
				}
				mu.Lock()
				for _, wc := range wcs[:n] {
					if completed[wc.QPNum] == nil {
						completed[wc.QPNum] = map[uint64]int{}
					}
					completed[wc.QPNum][wc.ID]++
				}
				mu.Unlock()
				total.Add(int64(n))
				runtime.Gosched()
			}
		})
	}
	until := func(n int64) {
		for total.Load() < n && !t.Failed() {
			runtime.Gosched()
		}
	}
	r.put(r.fair.sendCQE(0, opcodeSend), r.fair.sendCQE(1, opcodeSend), r.fair.recvCQE(0), r.fair.recvCQE(1),
		r.q.sendCQE(0, opcodeSend), r.q.sendCQE(1, opcodeSend), r.q.recvCQE(0), r.q.recvCQE(1))
	until(8)
	const rounds = 100
	id, fair := uint64(100), uint16(2)
	for round := range rounds {
		want := total.Load() + 8
		r.send(r.q, id, id+1, id+2)
		if n, err := r.q.PostRecv([]provider.RecvWR{{ID: id + 3}, {ID: id + 4}}); n != 2 || err != nil {
			t.Fatalf("QP.PostRecv = %d, %v, want 2, nil", n, err)
		}
		r.send(r.fair, id, id+1, id+2)
		index := uint16(0)
		if round == 0 {
			index = 2
		}
		r.put(r.fair.sendCQE(fair, opcodeSend), r.q.sendCQE(index, opcodeSend), r.q.recvCQE(index+7), r.fair.sendCQE(fair+1, opcodeSend),
			r.q.recvCQE(index), r.fair.sendCQE(fair+2, opcodeSend))
		fair += 3
		until(want)
		if err := r.q.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); err != nil {
			t.Fatalf("QP.Modify: %v", err)
		}
		r.connect(r.q)
		id += 5
	}
	stop.Store(true)
	pollers.Wait()
	for i := range uint64(rounds * 5) {
		want := 0
		if i%5 < 3 {
			want = 1
		}
		if got := completed[r.fair.num][100+i]; got != want {
			t.Errorf("request %d of the other QP completed %d times, want %d", 100+i, got, want)
		}
		if got := completed[r.q.num][100+i]; got != 1 {
			t.Errorf("request %d of the failing QP completed %d times, want 1", 100+i, got)
		}
	}
}
