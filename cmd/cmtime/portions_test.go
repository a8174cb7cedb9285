// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// TestPortions has a step whose connections end it as late as may be: all go through
// it, and never more than underWay at once.
func TestPortions(t *testing.T) {
	for _, n := range []int{0, 1, underWay/2 - 1, underWay / 2, underWay/2 + 1, underWay, underWay + 1, 10 * underWay, 10*underWay + 77} {
		begun, ended, most := 0, 0, 0
		for portion, pending := range portions(make([]struct{}, n)) {
			begun += len(portion)
			most = max(most, begun-ended)
			ended = max(ended, n-pending)
			if ended > begun {
				t.Fatalf("of %d connections %d have begun, and %d are to have ended", n, begun, ended)
			}
		}
		if begun != n || ended != n {
			t.Errorf("of %d connections %d began and %d ended", n, begun, ended)
		}
		if want := min(n, underWay); most != want {
			t.Errorf("of %d connections %d were under way at once, want %d", n, most, want)
		}
	}
}
