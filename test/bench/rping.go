// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"time"
)

// The rounds of the short and the long run. The difference of their times includes neither the start of the
// client nor connecting.
const (
	shortRounds = 20
	longRounds  = 820
)

// startTime is the time for a server to start before the first attempt to connect.
const startTime = 300 * time.Millisecond

// benchRping compares the time per round of rping, each program against itself.
func benchRping(ctx context.Context, e *env) error {
	c, err := startRping(ctx, e, "rping", 7174)
	if err != nil {
		return err
	}
	defer c.stop()
	goes, err := startRping(ctx, e, e.program("rping"), 7175)
	if err != nil {
		return err
	}
	defer goes.stop()
	var p pairs
	for range e.runs {
		a, err := c.round(ctx)
		if err != nil {
			return err
		}
		b, err := goes.round(ctx)
		if err != nil {
			return err
		}
		p.add(a, b)
	}
	p.print("us/round")
	return nil
}

// rping is a server of one of the programs, with the command of its client.
type rping struct {
	program string
	args    []string // arguments of the client
	server  *exec.Cmd
}

// startRping starts a server and waits until it has served a client. The server prints nothing when it is
// ready, and the first client also resolves neighbours.
func startRping(ctx context.Context, e *env, program string, port int) (*rping, error) {
	addr := []string{"-a", e.hosts[0].IPv4.String(), "-p", strconv.Itoa(port)}
	r := &rping{
		program: program,
		args:    append([]string{"-c", "-V", "-I", e.hosts[1].IPv4.String()}, addr...),
		server:  exec.CommandContext(ctx, program, append([]string{"-s", "-P"}, addr...)...),
	}
	if err := r.server.Start(); err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		time.Sleep(startTime)
		_, err := r.client(ctx, shortRounds)
		if err == nil {
			return r, nil
		}
		if try == 20 || ctx.Err() != nil {
			r.stop()
			return nil, err
		}
	}
}

func (r *rping) stop() {
	r.server.Process.Kill()
	r.server.Wait()
}

// round returns the microseconds of one round.
func (r *rping) round(ctx context.Context) (float64, error) {
	short, err := r.client(ctx, shortRounds)
	if err != nil {
		return 0, err
	}
	long, err := r.client(ctx, longRounds)
	if err != nil {
		return 0, err
	}
	return float64((long - short).Microseconds()) / (longRounds - shortRounds), nil
}

// client runs a client and returns its time.
func (r *rping) client(ctx context.Context, rounds int) (time.Duration, error) {
	start := time.Now()
	out, err := exec.CommandContext(ctx, r.program, append(r.args, "-C", strconv.Itoa(rounds))...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", r.program, err, out)
	}
	return time.Since(start), nil
}
