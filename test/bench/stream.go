// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
)

// contest is a group of programs that move equal data. Their runs alternate. The first program is compared with each of
// the others.
type contest struct {
	name     string // for -cells
	entrants []entrant
}

// entrant is one program of a contest.
type entrant struct {
	name string
	// goal bounds the ratio of the first program's time to the time of this one, 0 if there is none.
	goal float64
	// mean compares the means instead of the medians.
	mean bool
	// flaky repeats a failed run. It is for programs of others, which fail sometimes.
	flaky bool
	run   func(ctx context.Context, e *env) (figures, error)
}

// The goals of package stream are ratios of times.
const (
	goalStreamLatency   = 1.2      // to rdmaperf's send_lat
	goalStreamBandwidth = 1 / 0.85 // to rdmaperf's send_bw
	goalStreamRsockets  = 1.0      // to rdma-core's rstream
)

// The transfers of the contests. A run takes about half a second in a VM with an emulated processor.
var (
	pingPong   = exchange{kind: "echo", size: 64, count: 1, rounds: 2000}
	bandwidths = []exchange{
		{kind: "echo", size: 64 << 10, count: 100, rounds: 1},
		{kind: "echo", size: 1 << 20, count: 12, rounds: 1},
	}
	gets = []exchange{
		{kind: "http", size: 64, count: 1, rounds: 500},
		{kind: "http", size: 64, count: 16, rounds: 50},
		{kind: "http", size: 1 << 20, count: 1, rounds: 10},
	}
	calls = []call{
		{kind: "unary", size: 64, parallel: 1, calls: 500},
		{kind: "unary", size: 64, parallel: 16, calls: 800},
		{kind: "unary", size: 1 << 20, parallel: 1, calls: 5},
		{kind: "streaming", size: 64, parallel: 1, calls: 500},
	}
)

// streamContests returns the contests of package stream.
func streamContests() []contest {
	c := pingPong
	ping := cell{test: "send_lat", size: c.size, qps: 1, list: 1}
	pingEvents := ping
	pingEvents.events = true
	all := []contest{{fmt.Sprintf("latency/%d", c.size), []entrant{
		{name: "stream that polls", run: c.over("polling")},
		{name: "rdmaperf", goal: goalStreamLatency, run: ping.by(rdmaperf)},
		{name: "rstream", goal: goalStreamRsockets, mean: true, flaky: true, run: c.rstream(rdmaCore)},
	}}, {fmt.Sprintf("latency/%d/sleeping", c.size), []entrant{
		{name: "stream", run: c.over("stream")},
		{name: "rdmaperf with events", run: pingEvents.by(rdmaperf)},
		{name: "rstream that blocks", mean: true, flaky: true, run: c.rstream(rdmaCore, "-T", "b")},
		{name: "TCP", run: c.over("tcp")},
	}}, {fmt.Sprintf("rsocket/latency/%d", c.size), []entrant{
		{name: "Go's rstream", run: c.rstream(purerdma)},
		{name: "rstream", goal: goalStreamRsockets, flaky: true, run: c.rstream(rdmaCore)},
	}}, {fmt.Sprintf("rsocket/latency/%d/sleeping", c.size), []entrant{
		{name: "Go's rstream that blocks", run: c.rstream(purerdma, "-T", "b")},
		{name: "rstream that blocks", flaky: true, run: c.rstream(rdmaCore, "-T", "b")},
	}}}
	for _, c := range bandwidths {
		one := cell{test: "send_bw", size: c.size, qps: 1, list: 1}
		all = append(all, contest{fmt.Sprintf("bandwidth/%d", c.size), []entrant{
			{name: "stream that polls", run: c.over("polling")},
			{name: "rdmaperf", goal: goalStreamBandwidth, run: one.by(rdmaperf)},
			{name: "rstream", goal: goalStreamRsockets, flaky: true, run: c.rstream(rdmaCore)},
			{name: "rstream that blocks", flaky: true, run: c.rstream(rdmaCore, "-T", "b")},
			{name: "TCP", run: c.over("tcp")},
		}}, contest{fmt.Sprintf("rsocket/bandwidth/%d", c.size), []entrant{
			{name: "Go's rstream", run: c.rstream(purerdma)},
			{name: "rstream", goal: goalStreamRsockets, flaky: true, run: c.rstream(rdmaCore)},
			{name: "rstream that blocks", flaky: true, run: c.rstream(rdmaCore, "-T", "b")},
		}})
	}
	for _, c := range gets {
		all = append(all, contest{fmt.Sprintf("http/%d/%d", c.size, c.count), []entrant{
			{name: "stream", run: c.over("stream")},
			{name: "TCP", mean: c.count > 1, run: c.over("tcp")},
		}})
	}
	for _, c := range calls {
		all = append(all, contest{fmt.Sprintf("grpc/%s/%d/%d", c.kind, c.size, c.parallel), []entrant{
			{name: "stream", run: c.over("stream")},
			{name: "TCP", mean: c.parallel > 1, run: c.over("tcp")},
		}})
	}
	return all
}

// by returns a run of the cell.
func (c cell) by(m measurement) func(context.Context, *env) (figures, error) {
	return func(ctx context.Context, e *env) (figures, error) { return m(ctx, e, c) }
}

// benchStream compares package stream with rdmaperf, rdma-core's rstream and TCP, and package rsocket with rstream.
func benchStream(ctx context.Context, e *env) error {
	pick, err := regexp.Compile(e.cells)
	if err != nil {
		return fmt.Errorf("-cells: %w", err)
	}
	restore, err := raiseBacklog()
	if err != nil {
		return err
	}
	defer restore()
	if err := e.copyProgram("grpcperf"); err != nil {
		return err
	}
	var outside []string
	for _, c := range streamContests() {
		if !pick.MatchString(c.name) {
			continue
		}
		missed, err := e.contest(ctx, c)
		if err != nil {
			return err
		}
		outside = append(outside, missed...)
	}
	fmt.Printf(" outside the goal: %d %s\n", len(outside), strings.Join(outside, ", "))
	return nil
}

// contest runs the programs of a contest in turn, and returns the rows that are outside the goal. A program that has
// failed does not run again.
func (e *env) contest(ctx context.Context, c contest) (outside []string, err error) {
	results := make([][]figures, len(c.entrants))
	failed := make([]error, len(c.entrants))
	for i := range e.runs {
		for k := range c.entrants {
			who := (i + k) % len(c.entrants) // drift affects all programs equally
			if failed[who] != nil {
				continue
			}
			p := c.entrants[who]
			run := func() (figures, error) { return p.run(ctx, e) }
			var f figures
			if p.flaky {
				f, err = again(ctx, run)
			} else {
				f, err = run()
			}
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			results[who], failed[who] = append(results[who], f), err
		}
	}
	for who, err := range failed {
		if err != nil {
			fmt.Printf(" %s: %s: %v\n", c.name, c.entrants[who].name, err)
		}
	}
	first := c.entrants[0]
	if failed[0] != nil {
		return []string{c.name}, nil
	}
	for who, p := range c.entrants {
		if who == 0 || failed[who] != nil {
			continue
		}
		var times pairs
		for i, theirs := range results[who] {
			ours := results[0][i]
			if p.mean {
				theirs.message, ours.message = cmp.Or(theirs.mean, theirs.message), cmp.Or(ours.mean, ours.message)
			}
			times.add(theirs.message, ours.message)
		}
		unit := "us"
		if p.mean {
			unit = "us (mean)"
		}
		label := c.name
		if p.goal > 0 {
			label += fmt.Sprintf(" (goal %.3g)", p.goal)
			if lo, _ := interval(times.ratios()); lo > p.goal {
				outside = append(outside, c.name+" against "+p.name)
			}
		}
		fmt.Printf(" %-40s", label)
		times.printAs(p.name, first.name, unit)
	}
	return outside, nil
}
