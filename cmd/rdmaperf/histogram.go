// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"math/bits"
	"time"
)

// Durations below fine nanoseconds have a bucket each. Above, each power of two has fine/2
// buckets, so that a percentile is wrong by at most 0.1 %.
const (
	fineBits = 11
	fine     = 1 << fineBits
)

// histogram counts durations without allocating.
type histogram struct {
	count    uint64
	min, max time.Duration
	sum      float64 // nanoseconds
	squares  float64
	buckets  [fine + (64-fineBits)*fine/2]uint64
}

func (h *histogram) reset() { *h = histogram{min: math.MaxInt64} }

// add counts d. A negative d counts as 0.
func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.count++
	h.min, h.max = min(h.min, d), max(h.max, d)
	h.sum += float64(d)
	h.squares += float64(d) * float64(d)
	h.buckets[bucket(uint64(d))]++
}

func bucket(n uint64) int {
	if n < fine {
		return int(n)
	}
	shift := bits.Len64(n) - fineBits
	return shift*fine/2 + int(n>>shift)
}

// middle returns the duration that represents a bucket.
func middle(b int) time.Duration {
	if b < fine {
		return time.Duration(b)
	}
	shift := (b - fine/2) / (fine / 2)
	return time.Duration(uint64(b-shift*fine/2)<<shift + 1<<(shift-1))
}

// percentile returns the smallest duration that p percent of the durations do not exceed.
func (h *histogram) percentile(p float64) time.Duration {
	rank := uint64(math.Ceil(float64(h.count) * p / 100))
	var seen uint64
	for b, n := range h.buckets {
		if seen += n; seen >= max(rank, 1) {
			return min(max(middle(b), h.min), h.max)
		}
	}
	return h.max
}

// mean and deviation return statistics of all durations, in nanoseconds.
func (h *histogram) mean() float64 { return h.sum / float64(max(h.count, 1)) }

func (h *histogram) deviation() float64 {
	return math.Sqrt(max(0, h.squares/float64(max(h.count, 1))-h.mean()*h.mean()))
}
