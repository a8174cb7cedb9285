// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"fmt"
	"slices"
	"testing"
	"time"
	"unsafe"

	"purerdma/provider"
)

// BenchmarkPoll polls completions of WRITEs and of receives, so many by one call,
// out of a ring that is filled by 512 while the clock stands still.
func BenchmarkPoll(b *testing.B) {
	for _, unlocked := range []bool{false, true} {
		for _, kind := range []string{"send", "recv"} {
			for _, batch := range []int{1, 16, 32} {
				name := fmt.Sprintf("%s/batch=%d", kind, batch)
				if unlocked {
					name = "unlocked/" + name
				}
				b.Run(name, func(b *testing.B) {
					benchPoll(b, provider.CQConfig{Entries: 1023, Unlocked: unlocked}, kind == "recv", batch)
				})
			}
		}
	}
}

func benchPoll(b *testing.B, cfg provider.CQConfig, recv bool, batch int) {
	const round = 512
	r := newCQRig(b, cfg)
	q := r.qpOf(provider.RC, nil, 1024)
	cqe := q.sendCQE(0, opcodeWrite).Bytes(64)
	if recv {
		cqe = q.recvCQE(0).Bytes(64)
	}
	wcs := make([]provider.WC, batch)
	var rounds []time.Duration
	for left := b.N; left > 0; left -= round {
		for i := range uint32(round) {
			var index uint16
			if recv {
				index = uint16(q.rq.head)
				q.rq.head++
			} else {
				index = q.sendPosted(1, 0)
			}
			setCounter(cqe, index)
			e := r.cq.entry(r.cq.ci + i)
			copy(unsafe.Slice((*byte)(e), cqeSize), cqe)
			*(*uint8)(unsafe.Add(e, cqeOpOwn)) |= uint8((r.cq.ci + i) >> r.cq.log & 1)
		}
		start := time.Now()
		for n := 0; n < round; {
			k, err := r.cq.Poll(wcs)
			if k == 0 {
				b.Fatal(err)
			}
			n += k
		}
		rounds = append(rounds, time.Since(start))
	}
	// The median, and what a quiet machine would give.
	slices.Sort(rounds)
	b.ReportMetric(float64(rounds[len(rounds)/2].Nanoseconds())/round, "ns/CQE")
	b.ReportMetric(float64(rounds[len(rounds)/50].Nanoseconds())/round, "quiet-ns/CQE")
	b.ReportMetric(0, "ns/op")
}
