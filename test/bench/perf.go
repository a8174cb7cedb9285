// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"purerdma/internal/vmtest"
)

// cell is one comparison of rdmaperf with a program of perftest, with equal parameters. test is the name of
// that program.
type cell struct {
	test   string // such as "send_bw"
	size   int    // bytes of a message
	qps    int
	list   int // requests of one post
	events bool

	// outstanding and messages are the exact depth and count, with a completion for each request, or 0.
	outstanding, messages int
}

// A goal is met if the interval of the ratio reaches down to it.
const (
	goalPolled = 1.0
	goalEvents = 1.25
)

// The dimensions of the whole matrix.
var (
	sizes    = []int{8, 4 << 10, 64 << 10, 1 << 20}
	qpCounts = []int{1, 8, 64}
)

// cells returns the whole matrix, or a selection of it.
func cells(full bool) []cell {
	if !full {
		return []cell{
			{test: "send_bw", size: 8, qps: 1, list: 1},
			{test: "send_bw", size: 8, qps: 1, list: 16},
			{test: "send_bw", size: 8, qps: 8, list: 1, events: true},
			{test: "send_bw", size: 64 << 10, qps: 1, list: 1},
			{test: "write_bw", size: 8, qps: 8, list: 1},
			{test: "write_bw", size: 64 << 10, qps: 1, list: 1},
			{test: "read_bw", size: 4 << 10, qps: 1, list: 1},
			{test: "send_lat", size: 8, qps: 1, list: 1},
			{test: "send_lat", size: 8, qps: 1, list: 1, events: true},
			{test: "write_lat", size: 8, qps: 1, list: 1},
			{test: "read_lat", size: 8, qps: 1, list: 1},
			{test: "atomic_lat", size: 8, qps: 1, list: 1},
		}
	}
	var all []cell
	for _, events := range []bool{false, true} {
		for _, test := range []string{"send_bw", "write_bw", "read_bw"} {
			if test == "write_bw" && events {
				continue // perftest does not support this
			}
			for _, qps := range qpCounts {
				for _, size := range sizes {
					all = append(all, cell{test: test, size: size, qps: qps, list: 1, events: events})
				}
			}
		}
		for _, qps := range qpCounts {
			all = append(all, cell{test: "atomic_bw", size: 8, qps: qps, list: 1, events: events})
		}
		for _, test := range []string{"send_lat", "write_lat", "read_lat"} {
			for _, size := range sizes {
				if test != "write_lat" || !events { // write_lat polls memory, which has no events
					all = append(all, cell{test: test, size: size, qps: 1, list: 1, events: events})
				}
			}
		}
		all = append(all, cell{test: "atomic_lat", size: 8, qps: 1, list: 1, events: events})
	}
	for _, test := range []string{"send_bw", "write_bw"} {
		all = append(all, cell{test: test, size: 8, qps: 1, list: 16}, cell{test: test, size: 8, qps: 8, list: 16})
	}
	return all
}

// String names the cell in one word, for -cells.
func (c cell) String() string {
	s := fmt.Sprintf("%s/%d/%dqp", c.test, c.size, c.qps)
	if c.list > 1 {
		s += "/list" + strconv.Itoa(c.list)
	}
	if c.events {
		return s + "/events"
	}
	return s + "/polled"
}

func (c cell) latency() bool { return strings.HasSuffix(c.test, "_lat") }

func (c cell) goal() float64 {
	if c.events {
		return goalEvents
	}
	return goalPolled
}

// count returns the number of messages of each QP. All QPs together take about a second in a VM with an
// emulated processor. Percentiles need a minimum number.
func (c cell) count() int {
	if c.messages > 0 {
		return c.messages
	}
	const messages, bytes = 10000, 24 << 20
	total := min(messages, bytes/c.size)
	if c.latency() {
		total = min(2000, max(16, total/4))
	}
	n := max(5, total/c.qps)
	return n - n%c.list // perftest requires a multiple
}

// depth returns the number of outstanding requests of each QP.
func (c cell) depth() int {
	if c.outstanding > 0 {
		return c.outstanding
	}
	return min(128, c.count())
}

// moderation returns the number of requests for each completion. For lists it is the whole list, because
// perftest requires lists to be multiples of it.
func (c cell) moderation() int {
	switch {
	case c.outstanding > 0:
		return 1
	case c.list > 1:
		return c.list
	}
	return max(1, c.depth()/2)
}

// flags returns the flags for both programs. Without --disable_pcie_relaxed both register memory with relaxed
// ordering, except in write_lat.
func (c cell) flags() []string {
	f := []string{"-R", "-F", "-s", strconv.Itoa(c.size), "-n", strconv.Itoa(c.count())}
	if strings.HasPrefix(c.test, "atomic") {
		f = slices.Delete(f, 2, 4) // atomics always have 8 bytes, and take no flag for the size
	}
	if !c.latency() {
		f = append(f, "-q", strconv.Itoa(c.qps), "-t", strconv.Itoa(c.depth()), "-Q", strconv.Itoa(c.moderation()))
	}
	if c.list > 1 {
		f = append(f, "-l", strconv.Itoa(c.list))
	}
	if c.events {
		f = append(f, "-e")
	}
	return f
}

// client returns the command of a client. siw sends in one of two ways, depending on whether the poster runs on
// the processor of the QP's thread. -client-cpu sets the processor for both programs.
func (e *env) client(ctx context.Context, program string, args ...string) *exec.Cmd {
	if e.cpu < 0 {
		return exec.CommandContext(ctx, program, args...)
	}
	return exec.CommandContext(ctx, "taskset", append([]string{"-c", strconv.Itoa(e.cpu), program}, args...)...)
}

// figures has the results of a program, in microseconds.
type figures struct {
	message float64 // time of one message over all QPs, or the median latency
	mean    float64 // of rows of stream
	p99     float64 // latency tests only
}

// perf compares the data paths.
func benchPerf(ctx context.Context, e *env) error {
	pick, err := regexp.Compile(e.cells)
	if err != nil {
		return fmt.Errorf("-cells: %w", err)
	}
	restore, err := raiseBacklog()
	if err != nil {
		return err
	}
	defer restore()
	var outside []string
	for _, c := range cells(e.full || e.cells != "") {
		if !pick.MatchString(c.String()) || !c.possible(vmtest.Driver()) {
			continue
		}
		bad, err := e.compare(ctx, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			// perftest itself fails sometimes. The other runs count.
			fmt.Printf(" %v: %v\n", c, err)
			continue
		}
		outside = append(outside, bad...)
	}
	fmt.Printf(" outside the goal: %d %s\n", len(outside), strings.Join(outside, ", "))
	return nil
}

// possible reports whether a driver supports the operation.
func (c cell) possible(driver string) bool {
	return driver != "siw" || !strings.HasPrefix(c.test, "atomic")
}

// compare runs pairs of a cell, and returns the figures that are outside the goal.
func (e *env) compare(ctx context.Context, c cell) (outside []string, err error) {
	message, p99, err := e.alternate(ctx, c, perftest, rdmaperf)
	if err != nil {
		return nil, err
	}
	unit := "us/message"
	if c.latency() {
		unit = "us (p50)"
	}
	report := func(what string, p pairs, unit string) {
		fmt.Printf(" %-32s", what)
		p.print(unit)
		if lo, _ := interval(p.ratios()); lo > c.goal() {
			outside = append(outside, what)
		}
	}
	report(c.String(), message, unit)
	if c.latency() && c.count() >= 1000 {
		report(c.String()+" p99", p99, "us (p99)")
	}
	return outside, nil
}

// measurement runs a cell once.
type measurement func(context.Context, *env, cell) (figures, error)

// alternate runs a cell in two ways in turn, so that drift affects both equally.
func (e *env) alternate(ctx context.Context, c cell, first, second measurement) (message, p99 pairs, err error) {
	ways := [2]measurement{first, second}
	for i := range e.runs {
		var r [2]figures
		for k := range r {
			side := (i + k) % 2
			if r[side], err = again(ctx, func() (figures, error) { return ways[side](ctx, e, c) }); err != nil {
				return message, p99, err
			}
		}
		message.add(r[0].message, r[1].message)
		p99.add(r[0].p99, r[1].p99)
	}
	return message, p99, nil
}

// tries bounds the runs of a failing program.
const tries = 4

// again runs a program until it succeeds, and prints the other errors.
func again(ctx context.Context, run func() (figures, error)) (f figures, err error) {
	for range tries {
		if f, err = run(); err == nil || ctx.Err() != nil {
			break
		}
		fmt.Fprintln(os.Stderr, "bench: a run has failed:", err)
	}
	return f, err
}
