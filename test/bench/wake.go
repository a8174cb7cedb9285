// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// The numbers of wake-ups in one run. The first ones do not count, because they load code and memory for the
// first time.
const (
	wakeUps   = 2000
	wakeFirst = 100
)

// wakeKind is the ratio of the waiter's requests to the peer's messages.
type wakeKind struct {
	name          string
	asks, answers int // requests of the waiter, and messages of the peer for each request
}

var wakeKinds = []wakeKind{
	{"one request", 1, wakeFirst + wakeUps},
	{"a request each", wakeFirst + wakeUps, 1},
}

// wakeWay is a waiter.
type wakeWay struct {
	goes bool
	how  string // the last argument
}

const (
	cPolls = iota
	cWaits
	goPolls
	goWaits
	goSpins
)

var wakeWays = [...]wakeWay{
	cPolls: {false, "poll"}, cWaits: {false, "wait"}, goPolls: {true, "poll"}, goWaits: {true, "wait"}, goSpins: {true, "spin"},
}

// wakeTimes has the microseconds of each way.
type wakeTimes struct{ p50, p99 [len(wakeWays)]float64 }

// wakeRows lists the rows of the output, with the times of C and Go.
var wakeRows = []struct {
	name, unit string
	of         func(t *wakeTimes) (c, goes float64)
}{
	{"polled", "us (p50)", func(t *wakeTimes) (c, goes float64) { return t.p50[cPolls], t.p50[goPolls] }},
	{"waited", "us (p50)", func(t *wakeTimes) (c, goes float64) { return t.p50[cWaits], t.p50[goSpins] }},
	{"waited, p99", "us (p99)", func(t *wakeTimes) (c, goes float64) { return t.p99[cWaits], t.p99[goSpins] }},
	{"waited, SetSpin(0)", "us (p50)", func(t *wakeTimes) (c, goes float64) { return t.p50[cWaits], t.p50[goWaits] }},
	{"waited, SetSpin(0), p99", "us (p99)", func(t *wakeTimes) (c, goes float64) { return t.p99[cWaits], t.p99[goWaits] }},
	{"waited minus polled", "us (p50)", func(t *wakeTimes) (c, goes float64) {
		return t.p50[cWaits] - t.p50[cPolls], t.p50[goSpins] - t.p50[goPolls]
	}},
	{"waited minus polled, SetSpin(0)", "us (p50)", func(t *wakeTimes) (c, goes float64) {
		return t.p50[cWaits] - t.p50[cPolls], t.p50[goWaits] - t.p50[goPolls]
	}},
}

// benchWake compares the times from the post of a message by a peer until a waiter has its completion. The
// message carries the time of the post. The peer is one C program for all waiters. It sleeps before each
// message, so that the waiter also sleeps. The time of a polling waiter is the part without a wake-up.
func benchWake(ctx context.Context, e *env) error {
	theirs, err := compile(ctx, e.dir, "wake", "-lrdmacm", "-libverbs")
	if err != nil {
		fmt.Printf("  left out: %v\n", err)
		return nil
	}
	for _, kind := range wakeKinds {
		all := make([]pairs, len(wakeRows))
		for i := range e.runs {
			var times wakeTimes
			for k := range wakeWays {
				way := (i + k) % len(wakeWays) // drift affects all ways equally
				us, err := e.wake(ctx, theirs, kind, wakeWays[way])
				if err != nil {
					return fmt.Errorf("%s, %+v: %w", kind.name, wakeWays[way], err)
				}
				times.p50[way], times.p99[way] = median(us), percentile(us, 99)
			}
			for k, row := range wakeRows {
				all[k].add(row.of(&times))
			}
		}
		fmt.Printf(" %s:\n", kind.name)
		for k, row := range wakeRows {
			fmt.Printf(" %-32s", row.name)
			all[k].print(row.unit)
		}
	}
	return nil
}

// wake runs a waiter against a peer, and returns the microseconds of each message.
func (e *env) wake(ctx context.Context, theirs string, kind wakeKind, way wakeWay) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	peer := exec.CommandContext(ctx, theirs, "peer", e.hosts[0].IPv4.String())
	peer.Stderr = os.Stderr
	said, err := peer.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := peer.Start(); err != nil {
		return nil, err
	}
	defer func() { peer.Process.Kill(); peer.Wait() }()
	port, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the peer: %w", err)
	}
	program, args := theirs, []string{"waiter"}
	if way.goes {
		program, args = e.self, []string{"-wake"}
	}
	args = append(args, e.hosts[1].IPv4.String(), e.hosts[0].IPv4.String(), strings.TrimSpace(port),
		strconv.Itoa(kind.asks), strconv.Itoa(kind.answers), way.how)
	waiter := exec.CommandContext(ctx, program, args...)
	waiter.Stderr = os.Stderr
	out, err := waiter.Output()
	if err != nil {
		return nil, fmt.Errorf("the waiter: %w", err)
	}
	return parseWake(string(out))
}

// parseWake parses one number of nanoseconds in each line, and omits the first wake-ups.
func parseWake(out string) ([]float64, error) {
	var us []float64
	for line := range strings.Lines(out) {
		ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil || ns <= 0 || ns > int64(runTime/time.Nanosecond) {
			return nil, fmt.Errorf("the waiter printed %q", line)
		}
		us = append(us, float64(ns)/1e3)
	}
	if len(us) != wakeFirst+wakeUps {
		return nil, fmt.Errorf("the waiter printed %d times, want %d", len(us), wakeFirst+wakeUps)
	}
	return us[wakeFirst:], nil
}
