// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"testing"

	"purerdma/cm"
)

// TestNullConnParam pins the numbers of librdmacm's default parameters that differ from cm's.
func TestNullConnParam(t *testing.T) {
	if got := NullConnParam().RetryCount; got != 7 {
		t.Errorf("RetryCount = %d, want 7", got)
	}
	for n, want := range map[int]int{0: cm.None, 1: 1, 7: 7} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %d, want %d", n, got, want)
		}
	}
}
