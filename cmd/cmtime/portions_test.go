// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// TestPortions runs a step whose connections end as late as possible. It checks that all run
// the step, and never more than underWay at once.
func TestPortions(t *testing.T) {
	for _, n := range []int{0, 1, underWay/2 - 1, underWay / 2, underWay/2 + 1, underWay, underWay + 1, 10 * underWay, 10*underWay + 77} {
		started, ended, most := 0, 0, 0
		for portion, pending := range portions(make([]struct{}, n)) {
			started += len(portion)
			most = max(most, started-ended)
			ended = max(ended, n-pending)
			if ended > started {
				t.Fatalf("of %d connections %d have started, but portions waits for the end of %d", n, started, ended)
			}
		}
		if started != n || ended != n {
			t.Errorf("of %d connections %d started and %d ended", n, started, ended)
		}
		if want := min(n, underWay); most != want {
			t.Errorf("%d connections: %d ran at once, want %d", n, most, want)
		}
	}
}
