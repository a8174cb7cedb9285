// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"time"
)

// Rounds of the short and the long run: their difference has neither the start
// of the programs in it nor the connecting.
const (
	shortRounds = 20
	longRounds  = 520
)

// benchRping compares the time per round of rping.
func benchRping(ctx context.Context, e *env) error {
	var p pairs
	for range e.runs {
		c, err := rpingRound(ctx, e, "rping")
		if err != nil {
			return err
		}
		goes, err := rpingRound(ctx, e, e.rping)
		if err != nil {
			return err
		}
		p.add(c, goes)
	}
	p.print("us/round")
	return nil
}

// rpingRound returns the microseconds that one round takes between two
// processes of the same program.
func rpingRound(ctx context.Context, e *env, program string) (float64, error) {
	short, err := rpingTime(ctx, e, program, shortRounds)
	if err != nil {
		return 0, err
	}
	long, err := rpingTime(ctx, e, program, longRounds)
	if err != nil {
		return 0, err
	}
	return float64((long - short).Microseconds()) / (longRounds - shortRounds), nil
}

// rpingTime runs a server and a client and returns how long the client took.
func rpingTime(ctx context.Context, e *env, program string, rounds int) (time.Duration, error) {
	server := exec.CommandContext(ctx, program, "-s", "-P", "-a", e.hosts[0].IPv4.String())
	var serverOut bytes.Buffer
	server.Stdout, server.Stderr = &serverOut, &serverOut
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer func() { server.Process.Kill(); server.Wait() }()
	// The server says nothing when it is ready.
	time.Sleep(300 * time.Millisecond)
	start := time.Now()
	out, err := exec.CommandContext(ctx, program, "-c", "-a", e.hosts[0].IPv4.String(), "-I", e.hosts[1].IPv4.String(),
		"-C", strconv.Itoa(rounds), "-V").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s: %w\nclient: %s\nserver: %s", program, err, out, serverOut.Bytes())
	}
	return time.Since(start), nil
}
