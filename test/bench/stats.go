// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// pairs holds the results of alternating runs, in the same unit of time.
type pairs struct {
	c, goes []float64
}

func (p *pairs) add(c, goes float64) {
	p.c, p.goes = append(p.c, c), append(p.goes, goes)
}

// ratios returns the ratio of each pair, Go against C.
func (p *pairs) ratios() []float64 {
	ratios := make([]float64, len(p.c))
	for i := range ratios {
		ratios[i] = p.goes[i] / p.c[i]
	}
	return ratios
}

// print prints the medians and the ratio with its interval.
func (p *pairs) print(unit string) { p.printAs("C", "purerdma", unit) }

func (p *pairs) printAs(first, second, unit string) {
	ratios := p.ratios()
	lo, hi := interval(ratios)
	fmt.Printf("  %s %.4g %s, %s %.4g %s, ratio %.3f, 95%% interval %.3f to %.3f (%d pairs)\n",
		first, median(p.c), unit, second, median(p.goes), unit, median(ratios), lo, hi, len(ratios))
}

func median(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(x))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// percentile returns the smallest value that at least p percent of the values do not exceed.
func percentile(x []float64, p float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(x))
	return s[max(0, int(math.Ceil(float64(len(s))*p/100))-1)]
}

// interval returns the 95 % bootstrap interval of the median.
func interval(x []float64) (lo, hi float64) {
	if len(x) == 0 {
		return math.NaN(), math.NaN()
	}
	rnd := rand.New(rand.NewPCG(1, uint64(len(x))))
	medians := make([]float64, 2000)
	sample := make([]float64, len(x))
	for i := range medians {
		for j := range sample {
			sample[j] = x[rnd.IntN(len(x))]
		}
		medians[i] = median(sample)
	}
	slices.Sort(medians)
	return medians[len(medians)*25/1000], medians[len(medians)*975/1000]
}
