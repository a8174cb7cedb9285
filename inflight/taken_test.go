// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inflight_test

import (
	"testing"

	"purerdma/inflight"
	"purerdma/verbs"
)

// TestLostReceives closes QPs that have taken a receive of an SRQ and not completed it, as rxe loses it.
// Another receive takes its place. The memory of the lost ones is used again when each live QP has
// completed a later one.
func TestLostReceives(t *testing.T) {
	const depth = 8
	first := newRig(t, inflight.Config{}, verbs.QPConfig{})
	p := newPool(t, first.pd, 1<<16)
	s, err := inflight.NewSharedReceives(p, inflight.ReceiveConfig{Size: 256, Depth: depth})
	if err != nil {
		t.Fatalf("NewSharedReceives() = %v", err)
	}
	poller, err := inflight.NewPoller(first.dev, inflight.PollerConfig{CQEntries: 1024})
	if err != nil {
		t.Fatalf("NewPoller() = %v", err)
	}
	live := sharingRig(t, first, s, poller)
	live.pool = p
	lose := func(n int) {
		for range n {
			r := sharingRig(t, first, s, poller)
			r.from.pop(t)
			if err := r.qp.Close(); err != nil {
				t.Fatalf("QP.Close() = %v", err)
			}
		}
	}
	inUse := func(buffers int64) {
		t.Helper()
		if got := p.Stats().InUse; int64(got) != buffers*256 {
			t.Errorf("Stats().InUse = %d, want %d buffers of 256", got, buffers)
		}
	}
	check := func() {
		t.Helper()
		if n := live.from.count(); n != depth {
			t.Errorf("%d receives are posted, want %d", n, depth)
		}
	}
	for range 5 {
		// A live QP may have any of them.
		lose(depth)
		check()
		inUse(2 * depth)
		live.arrive(t)
		live.take(t, live.sent-1).Free()
		lose(1) // sees that live has completed a later receive
		check()
		inUse(depth + 1)
		live.arrive(t)
		live.take(t, live.sent-1).Free()
	}
	if err := live.qp.Close(); err != nil {
		t.Errorf("QP.Close() = %v", err)
	}
	lose(20 * depth)
	check()
	inUse(depth)
	if err := s.Close(); err != nil {
		t.Errorf("SharedReceives.Close() = %v", err)
	}
	if err := poller.Close(); err != nil {
		t.Errorf("Poller.Close() = %v", err)
	}
	inUse(0)
	if err := p.Close(); err != nil {
		t.Errorf("Pool.Close() = %v", err)
	}
}
