// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// runTime bounds the time of one run.
const runTime = time.Minute

// perftest runs a cell's program of perftest.
func perftest(ctx context.Context, e *env, c cell) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	program := "ib_" + c.test
	args := c.flags()
	server := exec.CommandContext(ctx, program, append([]string{"-d", e.hosts[0].Device}, args...)...)
	if err := server.Start(); err != nil {
		return figures{}, err
	}
	gone := make(chan struct{})
	go func() { server.Wait(); close(gone) }()
	defer func() { server.Process.Kill(); <-gone }()
	args = append(append([]string{"-d", e.hosts[1].Device}, args...), e.hosts[0].IPv4.String())
	for {
		// The server prints nothing when it is ready.
		select {
		case <-time.After(startTime):
		case <-gone:
			return figures{}, fmt.Errorf("the server of %s has ended", program)
		}
		out, err := e.client(ctx, program, args...).CombinedOutput()
		switch {
		case err == nil:
			return parsePerftest(string(out), c)
		case !bytes.Contains(out, []byte("REJECTED")):
			return figures{}, fmt.Errorf("%s: %w: %s", program, err, lastLines(out))
		}
	}
}

func lastLines(out []byte) []byte {
	out = bytes.TrimSpace(out)
	return out[max(0, len(out)-200):]
}

// parsePerftest parses the row of the result. It begins with the bytes and the iterations. A bandwidth test then
// has the peak and the average in units of 2^20 bytes a second, and the millions of messages a second. A latency
// test then has minimum, maximum, median, mean, deviation, 99 % and 99.9 %.
func parsePerftest(out string, c cell) (figures, error) {
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 5 || f[0] != strconv.Itoa(c.size) {
			continue
		}
		numbers := make([]float64, len(f))
		for i := range f {
			n, err := strconv.ParseFloat(f[i], 64)
			if err != nil || n < 0 {
				return figures{}, fmt.Errorf("perftest's row %q", line)
			}
			numbers[i] = n
		}
		switch {
		case c.latency() && len(f) >= 9:
			return figures{message: numbers[4], p99: numbers[7]}, nil
		case !c.latency() && c.size >= 4096 && numbers[3] > 0:
			return figures{message: float64(c.size) / (1 << 20) / numbers[3] * 1e6}, nil
		case !c.latency() && numbers[4] > 0: // for small messages the bandwidth is rounded
			return figures{message: 1 / numbers[4]}, nil
		}
		return figures{}, fmt.Errorf("perftest's row %q", line)
	}
	return figures{}, fmt.Errorf("perftest printed no result: %s", lastLines([]byte(out)))
}
