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

// dialers is how many connections are made at once.
const dialers = 64

// starts is how often a server that does not listen yet is tried.
const starts = 5

// benchAccept compares the time that a listener takes for 64 connections that are
// asked for at once, and disconnected: ucmatose -c 64 less what ucmatose -c 1
// takes as a rule, each program against itself.
func benchAccept(ctx context.Context, e *env) error {
	programs := [2]string{"ucmatose", e.program("ucmatose")}
	var one, all [2][]float64
	port := 7200
	for range e.runs {
		for i, program := range programs {
			for conns, took := range map[int]*[]float64{1: &one[i], dialers: &all[i]} {
				port++
				t, err := ucmatose(ctx, e, program, port, conns)
				if err != nil {
					return err
				}
				*took = append(*took, float64(t.Microseconds()))
			}
		}
	}
	var p pairs
	for k := range all[0] {
		p.add((all[0][k]-median(one[0]))/(dialers-1), (all[1][k]-median(one[1]))/(dialers-1))
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
	for try := 1; ; try++ {
		time.Sleep(2 * startTime)
		start := time.Now()
		out, err := exec.CommandContext(ctx, program, append([]string{"-s", e.hosts[0].IPv4.String(), "-b", e.hosts[1].IPv4.String()}, args...)...).CombinedOutput()
		if err == nil {
			return time.Since(start), nil
		}
		// Rejected because nobody listens: the server is slow to start.
		if try == starts || !bytes.Contains(out, []byte("RDMA_CM_EVENT_REJECTED, error: 8\n")) {
			return 0, fmt.Errorf("%s: %w: %s", program, err, lastLines(out))
		}
	}
}
