// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"context"
	"testing"

	"purerdma/verbs"
)

// BenchmarkSleep sends messages back and forth between two sleeping goroutines.
func BenchmarkSleep(b *testing.B) {
	for name, ctx := range map[string]context.Context{"cancel": b.Context(), "background": context.Background()} {
		b.Run(name, func(b *testing.B) {
			l, r := fakeRoute().pair(b, verbs.QPCap{})
			l.cq.SetSpin(0)
			r.cq.SetSpin(0)
			for _, e := range []*end{l, r} {
				e.recv(b, verbs.RecvWR{SGList: []verbs.SGE{e.buf.Slice(0, 64)}})
			}
			echo := make(chan error)
			go func() { echo <- pingPong(ctx, r, l, b.N, false) }()
			if err := pingPong(ctx, l, r, b.N, true); err != nil {
				b.Errorf("pingPong: %v", err)
			}
			if err := <-echo; err != nil {
				b.Errorf("pingPong: %v", err)
			}
		})
	}
}
