// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"testing"
)

func TestMedian(t *testing.T) {
	if m := median([]float64{3, 1, 2}); m != 2 {
		t.Errorf("odd: %v", m)
	}
	if m := median([]float64{4, 1, 2, 3}); m != 2.5 {
		t.Errorf("even: %v", m)
	}
}

// TestIntervalCovers draws samples whose median is known: the interval must hold
// it about 95 times in 100.
func TestIntervalCovers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	covered := 0
	for range 200 {
		x := make([]float64, 25)
		for i := range x {
			x[i] = 1 + rnd.NormFloat64()/10
		}
		if lo, hi := interval(x); lo <= 1 && 1 <= hi {
			covered++
		}
	}
	if covered < 175 {
		t.Errorf("covered %d of 200", covered)
	}
}
