// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package main

import (
	"errors"
	"strings"
	"testing"

	"purerdma/internal/longtest"
)

// TestCounters compares the instructions of a request and of a completion with a build without counters. The
// counters must cost something, or the builds are equal, and at most ten instructions.
func TestCounters(t *testing.T) {
	longtest.Need(t)
	const most = 10
	with, without := buildOurs(t), buildTagged(t, uncounted)
	for i := range subjects {
		s := &subjects[i]
		if s.name != rowPost && s.name != rowBuilder {
			continue
		}
		for _, kind := range append([]string{"poll"}, cases...) {
			for _, batch := range []int{1, 4} {
				a, err := leastSteps(with, s, kind, batch, 0)
				b, err2 := leastSteps(without, s, kind, batch, 0)
				if err := errors.Join(err, err2); errors.Is(err, errNoPtrace) {
					t.Skip(err)
				} else if err != nil {
					t.Fatalf("leastSteps(%s, %s, %d): %v", s.name, kind, batch, err)
				}
				if n := a - b; n <= 0 || n > most {
					t.Errorf("instructions of the counters in %s, %s, batch %d = %.2f (%.2f and %.2f), want up to %d", s.name, kind, batch, n, a, b, most)
				} else {
					t.Logf("%s, %s, batch %d: %.2f of %.2f", s.name, kind, batch, n, a)
				}
			}
		}
	}
}

// TestCountersTable formats the cost of the counters.
func TestCountersTable(t *testing.T) {
	r := newResults()
	if got := counters(r); got != "" {
		t.Errorf("counters(nothing) = %q, want nothing", got)
	}
	for i, batch := range batches {
		r.lower(rowPost, "write", batch, 10+float64(i))
		r.lower(rowPost0, "write", batch, 9.5)
	}
	if got, want := counters(r), "| PostSend, Poll, write | 0.50 / 1.50 / 2.50 | 1.0 |\n"; !strings.HasSuffix(got, want) || strings.Count(got, "\n") != 3 {
		t.Errorf("counters = %q, want one row %q", got, want)
	}
}
