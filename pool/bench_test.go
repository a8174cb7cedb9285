// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pool_test

import (
	"context"
	"fmt"
	"testing"

	"purerdma/pool"
)

func BenchmarkGet(b *testing.B) {
	_, pd := newPD(b)
	p := newPool(b, pd, pool.Config{}, false)
	ctx := context.Background()
	for _, n := range []int{64, 4096, 1 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buf, err := p.Get(ctx, n)
				if err != nil {
					b.Fatalf("p.Get: %v", err)
				}
				buf.Free()
			}
		})
	}
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				buf, err := p.Get(ctx, 4096)
				if err != nil {
					b.Errorf("p.Get: %v", err)
					return
				}
				buf.Free()
			}
		})
	})
}

// BenchmarkGetMixed takes each Buf of another size, so that blocks are divided and merged.
func BenchmarkGetMixed(b *testing.B) {
	_, pd := newPD(b)
	p := newPool(b, pd, pool.Config{SlabSize: 1 << 20, MaxBytes: 1 << 20}, false)
	ctx := context.Background()
	b.ReportAllocs()
	n := 64
	for b.Loop() {
		if n *= 2; n > 1<<20 {
			n = 64
		}
		buf, err := p.Get(ctx, n)
		if err != nil {
			b.Fatalf("p.Get: %v", err)
		}
		buf.Free()
	}
}
