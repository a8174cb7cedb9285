// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inprocess_test

import (
	"testing"

	"purerdma/verbs"
	"purerdma/verbs/mlx5dv"
)

// TestStrayCompletion makes a device complete a request or a receive of a destroyed QP. The CQ skips this
// completion, and the other QPs of the CQ lose nothing.
func TestStrayCompletion(t *testing.T) {
	for _, receive := range []bool{false, true} {
		n := newNet(t, nil)
		a, b := n.pair(verbs.QPCap{SendWR: 64, RecvWR: 64}, patient)
		hca := n.k.Device("mlx5_0")
		at := 0
		const rounds = 50
		for range rounds {
			stream(t, a, b, at, 20)
			at += 20
			other, err := a.pd.CreateQP(verbs.QPConfig{SendCQ: a.cq, RecvCQ: a.cq})
			if err != nil {
				t.Fatalf("a.pd.CreateQP: %v", err)
			}
			if err := other.Close(); err != nil {
				t.Fatalf("other.Close(): %v", err)
			}
			if !hca.StrayCompletion(receive) {
				t.Fatal("the device cannot make a stray completion")
			}
		}
		stream(t, a, b, at, 20)
		dv, err := mlx5dv.FromCQ(a.cq)
		if err != nil {
			t.Fatalf("mlx5dv.FromCQ(a.cq): %v", err)
		}
		if got := dv.Skipped(); got != rounds {
			t.Errorf("receive %v: Skipped() = %d, want %d", receive, got, rounds)
		}
	}
}
