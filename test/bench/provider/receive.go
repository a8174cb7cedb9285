// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// The kinds of receives of 16 bytes. The device writes their data to memory, or into the completion.
var receiveKinds = []string{"plain", "data"}

// receivers lists the subjects that poll receives, with one thread or two, each on its own processor.
var receivers = []subject{
	{name: "C, 1 poller", c: true, bin: "receive", pollers: 1},
	{name: "C, 2 pollers", c: true, bin: "receive", pollers: 2},
	{name: "Poll, 1 poller", bin: "ours", args: []string{"receive"}, pollers: 1},
	{name: "Poll, 2 pollers", bin: "ours", args: []string{"receive"}, pollers: 2},
}

// measureReceives is measure for receivers.
func (p *programs) measureReceives(ctx context.Context, o options) (*results, error) {
	if n := runtime.NumCPU(); n < 2 {
		return nil, fmt.Errorf("two pollers need two processors, not %d (-only post)", n)
	}
	best := newResults()
	for i := range o.repeat {
		fmt.Fprintf(os.Stderr, "bench/provider: measuring receives, %d of %d\n", i+1, o.repeat)
		for _, kind := range receiveKinds {
			for _, batch := range batches {
				for k := range receivers {
					s := &receivers[k]
					_, poll, err := p.run(ctx, s, kind, batch, o.rounds)
					if err != nil {
						return nil, err
					}
					best.lower(s.name, kind, batch, poll)
				}
			}
		}
	}
	return best, nil
}

// reportReceives measures short receives and prints their tables.
func (p *programs) reportReceives(ctx context.Context, o options) error {
	ns, err := p.measureReceives(ctx, o)
	if err != nil {
		return err
	}
	fmt.Printf("\nNanoseconds of each poller:\n\n%s\nOurs to C's, and gains:\n\n%s", receiveTable(ns), receiveRatios(ns))
	return nil
}

// receiveTable returns a table of the nanoseconds of a poller for each completion.
func receiveTable(ns *results) string {
	var b strings.Builder
	b.WriteString("| poll a receive of 16 bytes | in memory: 1 / 16 / 32 | in the CQE: 1 / 16 / 32 |\n|---|---|---|\n")
	for _, s := range receivers {
		fmt.Fprintf(&b, "| %s |", s.name)
		for _, kind := range receiveKinds {
			fmt.Fprintf(&b, " %s |", triple("%.1f", func(batch int) float64 { return ns.get(s.name, kind, batch) }))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// receiveRatios returns the table of ratios, with the goals. The gain of two pollers is the number of their
// completions in the time in which one poller takes one.
func receiveRatios(ns *results) string {
	gain := func(who, kind string, batch int) float64 {
		return 2 * ns.get(who+", 1 poller", kind, batch) / ns.get(who+", 2 pollers", kind, batch)
	}
	var b strings.Builder
	b.WriteString("| | 1 / 16 / 32 | goal |\n|---|---|---|\n")
	for _, row := range []struct {
		what string
		of   func(batch int) float64
		goal string
	}{
		{"receive of 16 bytes in the CQE, ns", func(n int) float64 {
			return ns.get("Poll, 1 poller", "data", n) / ns.get("C, 1 poller", "data", n)
		}, "1.0"},
		{"the same in memory, ns", func(n int) float64 {
			return ns.get("Poll, 1 poller", "plain", n) / ns.get("C, 1 poller", "plain", n)
		}, ""},
		{"gain of two pollers, in the CQE", func(n int) float64 { return gain("Poll", "data", n) }, ""},
		{"to the gain in memory", func(n int) float64 { return gain("Poll", "data", n) / gain("Poll", "plain", n) }, "at least 0.95"},
		{"to C's gain in the CQE", func(n int) float64 { return gain("Poll", "data", n) / gain("C", "data", n) }, "at least 0.95"},
	} {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", row.what, triple("%.2f", row.of), row.goal)
	}
	return b.String()
}
