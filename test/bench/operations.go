// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// operation is one comparison of the operations of a cm.Conn with rdmaperf and perftest. Each of the goroutines has
// one operation in flight. The other programs have equal numbers of requests outstanding, each with a completion.
type operation struct {
	kind       string // "read", "write" or "send"
	size       int    // bytes of a message
	goroutines int
	delayed    bool
}

// operationDelay is the delay of each packet in each direction, for delayed operations.
const operationDelay = time.Millisecond

var (
	operationKinds      = []string{"read", "write", "send"}
	operationSizes      = []int{8, 64, 4 << 10, 64 << 10}
	operationGoroutines = []int{1, 16, 100}
)

// The goals are ratios of times. A goal is met if the interval of the ratio reaches down to it.
const (
	goalAlone       = 1.1     // of one goroutine to rdmaperf
	goalMany        = 1 / 0.9 // of 100 goroutines to rdmaperf
	goalManyDelayed = 1 / 0.8
	goalGain        = 1.0 / 15 // of 100 goroutines to one, delayed
)

// operations lists the comparisons in groups that differ only by the goroutines.
func operations() (groups [][]operation) {
	for _, delayed := range []bool{false, true} {
		for _, kind := range operationKinds {
			for _, size := range operationSizes {
				var group []operation
				for _, n := range operationGoroutines {
					group = append(group, operation{kind, size, n, delayed})
				}
				groups = append(groups, group)
			}
		}
	}
	return groups
}

// short reports whether the comparison belongs to the run without -full and -cells, which takes about ten minutes for
// three pairs in a VM with an emulated processor.
func (o operation) short() bool { return !o.delayed || o.size == 64 || o.size == 4<<10 }

// String names the comparison in one word, for -cells.
func (o operation) String() string {
	s := fmt.Sprintf("%s/%d/%d", o.kind, o.size, o.goroutines)
	if o.delayed {
		s += "/delayed"
	}
	return s
}

// goal returns the goal of the ratio to rdmaperf, 0 if there is none.
func (o operation) goal() float64 {
	switch {
	case o.goroutines == 1:
		return goalAlone
	case o.goroutines < operationGoroutines[len(operationGoroutines)-1]:
		return 0
	case o.delayed:
		return goalManyDelayed
	}
	return goalMany
}

// operationTime is the approximate time of a run in a VM with an emulated processor.
const operationTime = 300 * time.Millisecond

// messages returns the number of operations of a run.
func (o operation) messages() int {
	work := 60*time.Microsecond + time.Duration(o.size)*30*time.Nanosecond
	each := work
	if o.goroutines < operationGoroutines[len(operationGoroutines)-1] { // their latency counts
		latency := work + 200*time.Microsecond
		if o.delayed {
			latency += 2 * operationDelay
		}
		each = max(each, latency/time.Duration(o.goroutines))
	}
	return max(int(operationTime/each), 4*o.goroutines)
}

// cell returns the equal test of rdmaperf and perftest.
func (o operation) cell() cell {
	return cell{test: o.kind + "_bw", size: o.size, qps: 1, list: 1, outstanding: o.goroutines, messages: o.messages()}
}

// The compared programs.
const (
	byConn = iota
	byRdmaperf
	byPerftest
)

// operationWays has the measurements of the programs.
var operationWays = [...]measurement{byConn: operate, byRdmaperf: rdmaperf, byPerftest: perftest}

// operationNames has the names of the programs.
var operationNames = [len(operationWays)]string{byConn: "Conn", byRdmaperf: "rdmaperf", byPerftest: "perftest"}

// operationTimes has the microseconds of an operation in each run, for each program that has not failed.
type operationTimes struct {
	us     [len(operationWays)][]float64
	failed [len(operationWays)]error
}

// benchOperations compares the operations of a cm.Conn.
func benchOperations(ctx context.Context, e *env) error {
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
	for _, group := range operations() {
		var picked []operation
		for _, o := range group {
			if pick.MatchString(o.String()) && (e.full || e.cells != "" || o.short()) {
				picked = append(picked, o)
			}
		}
		if len(picked) == 0 {
			continue
		}
		missed, err := e.operationGroup(ctx, picked)
		if err != nil {
			return err
		}
		outside = append(outside, missed...)
	}
	fmt.Printf(" outside the goal: %d %s\n", len(outside), strings.Join(outside, ", "))
	return nil
}

// operationGroup runs a group of comparisons, and returns the rows that are outside the goal.
func (e *env) operationGroup(ctx context.Context, group []operation) (outside []string, err error) {
	if group[0].delayed {
		for _, h := range e.hosts[:2] {
			undo, err := h.TryDelay(operationDelay)
			if err != nil {
				return nil, err
			}
			defer undo()
		}
	}
	times, err := e.operationTimes(ctx, group)
	if err != nil {
		return nil, err
	}
	return reportOperations(group, times), nil
}

// operationTimes runs a group of comparisons.
func (e *env) operationTimes(ctx context.Context, group []operation) ([]operationTimes, error) {
	times := make([]operationTimes, len(group))
	for i := range e.runs {
		for n, o := range group {
			t := &times[n]
			for k := range operationWays {
				way := (i + k) % len(operationWays) // drift affects all programs equally
				if t.failed[way] != nil {
					continue
				}
				f, err := again(ctx, func() (figures, error) { return operationWays[way](ctx, e, o.cell()) })
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				t.failed[way] = err
				t.us[way] = append(t.us[way], f.message)
			}
		}
	}
	return times, nil
}

// reportOperations prints the rows of a group, and returns the rows that are outside the goal.
func reportOperations(group []operation, times []operationTimes) (outside []string) {
	row := func(what string, p pairs, first, second string, goal float64) {
		label := what
		if goal > 0 {
			label += fmt.Sprintf(" (goal %.3g)", goal)
			if lo, _ := interval(p.ratios()); lo > goal {
				outside = append(outside, what)
			}
		}
		fmt.Printf(" %-36s", label)
		p.printAs(first, second, "us/operation")
	}
	for n, o := range group {
		t := &times[n]
		for way, err := range t.failed {
			if err != nil {
				fmt.Printf(" %v: %s: %v\n", o, operationNames[way], err)
			}
		}
		if t.failed[byConn] != nil {
			outside = append(outside, o.String())
			continue
		}
		for way, goal := range []float64{byRdmaperf: o.goal(), byPerftest: 0} {
			if way != byConn && t.failed[way] == nil {
				row(o.String(), pairs{c: t.us[way], goes: t.us[byConn]}, operationNames[way], operationNames[byConn], goal)
			}
		}
	}
	last := len(group) - 1
	if !group[0].delayed || group[0].goroutines != 1 || group[last].goroutines != operationGoroutines[len(operationGoroutines)-1] {
		return outside
	}
	for way, goal := range []float64{byConn: goalGain, byRdmaperf: 0} {
		if times[0].failed[way] == nil && times[last].failed[way] == nil {
			row(fmt.Sprintf("%v, %s", group[last], operationNames[way]), pairs{c: times[0].us[way], goes: times[last].us[way]}, "1 in flight", "100 in flight", goal)
		}
	}
	return outside
}

// operate measures a Conn, with this program at both ends.
func operate(ctx context.Context, e *env, c cell) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	kind, _, _ := strings.Cut(c.test, "_")
	common := []string{kind, strconv.Itoa(c.size), strconv.Itoa(c.outstanding)}
	return pairOfProcesses(ctx, e, "-operate", common, strconv.Itoa(c.messages))
}

// pairOfProcesses runs this program at both ends. The server prints its address, and the client the microseconds of an
// operation.
func pairOfProcesses(ctx context.Context, e *env, flag string, common []string, count string) (figures, error) {
	server := exec.CommandContext(ctx, e.self, append([]string{flag, "server", e.hosts[0].IPv4.String()}, common...)...)
	server.Stderr = os.Stderr
	said, err := server.StdoutPipe()
	if err != nil {
		return figures{}, err
	}
	if err := server.Start(); err != nil {
		return figures{}, err
	}
	defer func() { server.Process.Kill(); server.Wait() }()
	addr, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		return figures{}, fmt.Errorf("the server: %w", err)
	}
	args := append([]string{flag, "client", e.hosts[1].IPv4.String()}, common...)
	out, err := e.client(ctx, e.self, append(args, count, strings.TrimSpace(addr))...).Output()
	if err != nil {
		if ee, ok := err.(*exec.ExitError); ok {
			err = fmt.Errorf("%w: %s", err, lastLines(ee.Stderr))
		}
		return figures{}, fmt.Errorf("the client: %w", err)
	}
	return parseOperate(string(out))
}

// parseOperate parses the microseconds of an operation.
func parseOperate(out string) (figures, error) {
	us, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
	if err != nil || !(us > 0) {
		return figures{}, fmt.Errorf("the client printed %q", out)
	}
	return figures{message: us}, nil
}
