// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inflight_test

import (
	"context"
	"testing"

	"purerdma/inflight"
	"purerdma/verbs"
)

// instantQP completes requests as they are posted.
func instant(b *testing.B) *rig {
	r := newRig(b, inflight.Config{}, verbs.QPConfig{})
	r.hw.instant = true
	return r
}

func BenchmarkPostAndPoll(b *testing.B) {
	r := instant(b)
	wrs := []verbs.SendWR{*write(1)}
	wrs[0].Flags = verbs.SendSignaled
	var wcs [16]verbs.WC
	for b.Loop() {
		for range 16 {
			r.qp.PostSend(wrs)
		}
		for n := 0; n < 16; {
			k, _ := r.qp.SendCQ().Poll(wcs[:])
			n += k
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/16, "ns/request")
}

func BenchmarkStartAndWait(b *testing.B) {
	r := instant(b)
	ctx := context.Background()
	wr := write(1)
	var ops [16]inflight.Op
	for b.Loop() {
		for i := range ops {
			ops[i], _ = r.Start(ctx, wr, nil)
		}
		for i := range ops {
			ops[i].Wait(ctx)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/16, "ns/request")
}

func BenchmarkParallel(b *testing.B) {
	r := instant(b)
	ctx := context.Background()
	b.RunParallel(func(pb *testing.PB) {
		wr := write(1)
		for pb.Next() {
			p, _ := r.Submit(wr, nil)
			p.Wait(ctx)
		}
	})
}
