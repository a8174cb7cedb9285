// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hwcheck

import (
	"testing"
	"time"

	"purerdma/internal/hwreport"
	"purerdma/test/connectx"
	"purerdma/verbs"
)

// TestMore checks the bounds of additional repetitions.
func TestMore(t *testing.T) {
	for _, tc := range []struct {
		effort time.Duration
		n      int
		want   bool
	}{{0, 0, false}, {time.Hour, 0, true}, {time.Hour, 4, true}, {time.Hour, 5, false}} {
		tr := &trial{target: &Target{Effort: tc.effort}}
		w := tr.load(5)
		if got := w.more(tc.n); got != tc.want {
			t.Errorf("more(%d) of 5 in %v = %v, want %v", tc.n, tc.effort, got, tc.want)
		}
	}
}

// TestLongerStream continues a stream twice.
func TestLongerStream(t *testing.T) {
	const count = 100
	_, target := model(t)
	var sent uint64
	check := Check{ID: "stream", do: func(tr *trial) {
		extended := 0
		s := Stream{Count: count, Min: 1, Span: 50, Elements: 1, Depth: 64, Reads: true, more: func() bool {
			extended++
			return extended <= 2
		}}
		l := tr.link(s.config())
		l.stream(s, nil)
		sent = l.qp.Stats().Sends[verbs.OpSend].Operations
	}}
	if r := check.Run(t.Context(), target); r.Status != hwreport.Pass || sent != 3*count {
		t.Errorf("Run(stream) = %s: %s, after %d messages, want %s after %d", r.Status, r.Reason, sent, hwreport.Pass, 3*count)
	}
}

// TestRareDefect checks that a rare fault of a device needs an effort.
func TestRareDefect(t *testing.T) {
	long := patience
	patience = 500 * time.Millisecond
	defer func() { patience = long }()
	check, _ := Find("events")
	for effort, want := range map[time.Duration]hwreport.Status{0: hwreport.Pass, time.Hour: hwreport.Fail} {
		target := broken(connectx.Defects{LostDoorbells: 3500})
		target.Effort = effort
		if r := check.Run(t.Context(), target); r.Status != want {
			t.Errorf("Run(events) with each 3500th doorbell lost, and an effort of %v = %s: %s, want %s", effort, r.Status, r.Reason, want)
		}
	}
}
