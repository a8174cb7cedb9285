// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	if m := median([]float64{3, 1, 2}); m != 2 {
		t.Errorf("median of 3 values = %v, want 2", m)
	}
	if m := median([]float64{4, 1, 2, 3}); m != 2.5 {
		t.Errorf("median of 4 values = %v, want 2.5", m)
	}
}

func TestPercentile(t *testing.T) {
	x := []float64{5, 1, 4, 2, 3}
	for p, want := range map[float64]float64{0: 1, 1: 1, 20: 1, 21: 2, 60: 3, 99: 5, 100: 5} {
		if got := percentile(x, p); got != want {
			t.Errorf("percentile(%v, %v) = %v, want %v", x, p, got, want)
		}
	}
}

// TestIntervalCovers draws samples with a known median. The interval must contain it in about 95 % of the
// cases.
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
		t.Errorf("intervals that contain the median = %d of 200, want at least 175", covered)
	}
}

func TestParseCmtime(t *testing.T) {
	const table = `creating id
step              total ms     max ms     min us  us / conn
create id    :       15.27       0.28       7.00      15.27
bind addr    :       25.57       3.12      17.00      25.50
resolve addr :       26.50       1.11      29.00      26.00
resolve route:       23.01       0.69      25.00      23.00
create qp    :      236.57       6.94     115.00     236.00
connect      :     1425.44    1232.82   14127.00    1425.00
disconnect   :      824.57      95.27     962.00     824.50
destroy      :       21.83       0.61      15.00      21.50
`
	got, err := parseCmtime(table)
	if err != nil || got["connect"] != 1425 || got["connecting"] != 1750.77 || got["ending"] != 846 {
		t.Errorf("parseCmtime = %v, %v, want connect 1425, connecting 1750.77 and ending 846", got, err)
	}
	for _, bad := range []string{"", strings.Replace(table, "destroy ", "destroyed", 1), strings.Replace(table, " 26.00", " many", 1)} {
		if _, err := parseCmtime(bad); err == nil {
			t.Errorf("parseCmtime(%q) = nil error, want an error", bad)
		}
	}
}
