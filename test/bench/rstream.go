// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// The two programs rstream.
const (
	rdmaCore = iota
	purerdma
)

// The number of servers so far. Each server has another port, because the kernel keeps a used port for some time.
var rstreams atomic.Int32

// rstreamPort is the port before the port of the first server.
const rstreamPort = 7500

// rstream returns a run of the exchange by one of the programs at both ends.
func (x exchange) rstream(program int, flags ...string) func(context.Context, *env) (figures, error) {
	return func(ctx context.Context, e *env) (figures, error) {
		path := "rstream"
		if program == purerdma {
			path = e.program(path)
		}
		flags := append([]string{"-p", strconv.Itoa(rstreamPort + int(rstreams.Add(1))),
			"-S", strconv.Itoa(x.size), "-C", strconv.Itoa(x.count), "-I", strconv.Itoa(x.rounds)}, flags...)
		return runRstream(ctx, e, path, flags)
	}
}

// runRstream runs a server and a client.
func runRstream(ctx context.Context, e *env, path string, flags []string) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	first, second := e.hosts[0].IPv4.String(), e.hosts[1].IPv4.String()
	server := exec.CommandContext(ctx, path, append([]string{"-b", first}, flags...)...)
	if err := server.Start(); err != nil {
		return figures{}, err
	}
	gone := make(chan struct{})
	go func() { server.Wait(); close(gone) }()
	defer func() { server.Process.Kill(); <-gone }()
	for {
		// The server prints nothing when it is ready.
		select {
		case <-time.After(startTime):
		case <-gone:
			return figures{}, fmt.Errorf("the server of %s has ended", path)
		}
		out, err := e.client(ctx, path, append([]string{"-s", first, "-b", second}, flags...)...).CombinedOutput()
		if ctx.Err() == nil && bytes.Contains(out, []byte("rconnect")) {
			continue // the server does not listen yet
		}
		if err != nil {
			return figures{}, fmt.Errorf("%s: %w: %s", path, err, lastLines(out))
		}
		return parseRstream(string(out))
	}
}

// parseRstream parses the row of the test. It has 8 fields, and the last one is the mean time of a transfer in
// microseconds.
func parseRstream(out string) (figures, error) {
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) != 8 || f[0] != "custom" {
			continue
		}
		if us, err := strconv.ParseFloat(f[7], 64); err == nil && us > 0 {
			return figures{message: us, mean: us}, nil
		}
	}
	return figures{}, fmt.Errorf("rstream printed no result: %s", lastLines([]byte(out)))
}
