// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"testing"
	"time"
)

func TestNow(t *testing.T) {
	before := time.Now()
	a := Now()
	b := Now()
	after := time.Now()
	if b < a {
		t.Errorf("Now() = %d after %d, want no earlier time", b, a)
	}
	if got := Time(a); got.Before(before) || got.After(after) {
		t.Errorf("Time(%d) = %v, want a time from %v to %v", a, got, before, after)
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
