// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestHistogram compares with the results of sorting.
func TestHistogram(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h histogram
	for _, n := range []int{1, 2, 10, 999, 20000} {
		h.reset()
		var all []time.Duration
		sum := 0.0
		for range n {
			d := time.Duration(math.Exp(r.Float64() * 25)) // to 72 s
			all = append(all, d)
			h.add(d)
			sum += float64(d)
		}
		slices.Sort(all)
		var squares float64
		for _, d := range all {
			squares += (float64(d) - sum/float64(n)) * (float64(d) - sum/float64(n))
		}
		if h.min != all[0] || h.max != all[n-1] {
			t.Errorf("histogram of %d durations has range %v to %v, want %v to %v", n, h.min, h.max, all[0], all[n-1])
		}
		if h.count != uint64(n) {
			t.Errorf("histogram of %d durations has count %d", n, h.count)
		}
		near := func(what string, got, want, within float64) {
			if math.Abs(got-want) > want*within+1e-9 {
				t.Errorf("histogram of %d durations: %s = %g, want %g", n, what, got, want)
			}
		}
		near("mean", h.mean(), sum/float64(n), 1e-9)
		near("deviation", h.deviation(), math.Sqrt(squares/float64(n)), 1e-6)
		for _, p := range []float64{0, 50, 90, 99, 99.9, 100} {
			rank := max(1, int(math.Ceil(float64(n)*p/100)))
			near("percentile", float64(h.percentile(p)), float64(all[rank-1]), 0.001)
		}
	}
}

func TestHistogramEnds(t *testing.T) {
	var h histogram
	h.reset()
	h.add(-1)
	h.add(math.MaxInt64)
	if h.percentile(50) != 0 || h.percentile(100) < math.MaxInt64/1001*1000 {
		t.Errorf("percentile(50), percentile(100) = %v, %v, want 0 and the maximum", h.percentile(50), h.percentile(100))
	}
	if n := testing.AllocsPerRun(100, func() { h.add(12345) }); n != 0 {
		t.Errorf("add allocates %v times, want 0", n)
	}
}

func TestPattern(t *testing.T) {
	b := make([]byte, 10000)
	fill(b, seedClient)
	if err := differs(b, seedClient); err != nil {
		t.Errorf("differs: %v", err)
	}
	if differs(b, seedServer) == nil || differs(b, seedWarm) == nil {
		t.Error("differs(pattern of another seed) = nil, want an error")
	}
	b[9999]++
	if err := differs(b, seedClient); err == nil || !strings.Contains(err.Error(), "byte 9999 of 10000") {
		t.Errorf("differs = %v, want an error with the position", err)
	}
}

// TestTable checks that perftest's columns are in perftest's places, for scripts.
func TestTable(t *testing.T) {
	bw := result{Size: 8, Messages: 1000, Peak: 2, Average: 1.5, Rate: 0.25}
	lat := result{Size: 8, Messages: 1000, Latency: &latency{Min: 1, Max: 2, P50: 3, Mean: 4, Stdev: 5, P99: 6, P999: 7, P90: 8}}
	for _, tc := range []struct{ got, want string }{
		{bw.line(), "8 1000 2.00 1.50 0.250000"},
		{lat.line(), "8 1000 1.00 2.00 3.00 4.00 5.00 6.00 7.00 percentiles[usec]: p50 3.00 p90 8.00 p99 6.00 p99.9 7.00"},
		{header(kind{}), "#bytes #iterations BW peak[MiB/sec] BW average[MiB/sec] MsgRate[Mpps]"},
		{header(kind{Latency: true}), "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] 99% percentile[usec] 99.9% percentile[usec]"},
	} {
		if got := strings.Join(strings.Fields(tc.got), " "); got != tc.want {
			t.Errorf("header or line = %q, want %q", got, tc.want)
		}
	}
}
