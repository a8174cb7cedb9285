// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"time"
)

// dialers is how many connections are made at once.
const dialers = 64

// benchAccept compares the time that a listener takes for 64 connections that are
// asked for at once, and disconnected: ucmatose -c 64 less ucmatose -c 1, each
// program against itself.
func benchAccept(ctx context.Context, e *env) error {
	var p pairs
	port := 7200
	for range e.runs {
		var us [2]float64
		for i, program := range []string{"ucmatose", e.program("ucmatose")} {
			var took [2]time.Duration
			for k, conns := range []int{1, dialers} {
				port++
				var err error
				if took[k], err = ucmatose(ctx, e, program, port, conns); err != nil {
					return err
				}
			}
			us[i] = float64((took[1] - took[0]).Microseconds()) / (dialers - 1)
		}
		p.add(us[0], us[1])
	}
	p.print("us/connection")
	return nil
}

// ucmatose runs a server and a client, and returns how long the client took.
func ucmatose(ctx context.Context, e *env, program string, port, conns int) (time.Duration, error) {
	args := []string{"-p", strconv.Itoa(port), "-c", strconv.Itoa(conns), "-C", "0"}
	server := exec.CommandContext(ctx, program, append([]string{"-b", e.hosts[0].IPv4.String()}, args...)...)
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer func() { server.Process.Kill(); server.Wait() }()
	time.Sleep(startTime)
	start := time.Now()
	out, err := exec.CommandContext(ctx, program, append([]string{"-s", e.hosts[0].IPv4.String(), "-b", e.hosts[1].IPv4.String()}, args...)...).CombinedOutput()
	took := time.Since(start)
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return took, nil
}
