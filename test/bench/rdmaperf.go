// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"purerdma/internal/vmtest"
)

// rdmaperf runs this module's rdmaperf.
func rdmaperf(ctx context.Context, e *env, c cell) (figures, error) {
	return rdmaperfWith(ctx, e, c)
}

// rdmaperfWith runs rdmaperf with additional environment variables on both sides.
func rdmaperfWith(ctx context.Context, e *env, c cell, environ ...string) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	program := e.program("rdmaperf")
	server := exec.CommandContext(ctx, program, "-R", "-p", "0", "-B", e.hosts[0].IPv4.String())
	server.Env = append(os.Environ(), environ...)
	said, err := server.StdoutPipe()
	if err != nil {
		return figures{}, err
	}
	if err := server.Start(); err != nil {
		return figures{}, err
	}
	defer func() { server.Process.Kill(); server.Wait() }()
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		return figures{}, fmt.Errorf("rdmaperf's server: %w", err)
	}
	port := strings.TrimSpace(line[strings.LastIndexByte(line, ':')+1:])
	args := append([]string{c.test, "--json", "-p", port, "-B", e.hosts[1].IPv4.String()}, c.flags()...)
	if c.latency() {
		args = append(args, "-I", strconv.Itoa(perftestInline(c, vmtest.Driver())))
	}
	client := e.client(ctx, program, append(args, e.hosts[0].IPv4.String())...)
	client.Env = server.Env
	out, err := client.Output()
	if err != nil {
		if ee, ok := err.(*exec.ExitError); ok {
			err = fmt.Errorf("%w: %s", err, lastLines(ee.Stderr))
		}
		return figures{}, fmt.Errorf("rdmaperf: %w", err)
	}
	return parseRdmaperf(out, c)
}

// perftestInline returns perftest's limit of inline data in a latency test, in bytes. It is 0 on siw, on which
// perftest sends no inline data.
func perftestInline(c cell, driver string) int {
	switch {
	case driver == "siw":
		return 0
	case c.test == "send_lat":
		return 236
	case c.test == "write_lat":
		return 220
	}
	return 0
}

func parseRdmaperf(out []byte, c cell) (figures, error) {
	var said struct {
		Results []struct {
			Messages uint64  `json:"messages"`
			Seconds  float64 `json:"seconds"`
			Latency  struct {
				P50 float64 `json:"p50"`
				P99 float64 `json:"p99"`
			} `json:"latency_us"`
		} `json:"results"`
	}
	if err := json.Unmarshal(out, &said); err != nil || len(said.Results) != 1 || said.Results[0].Messages == 0 {
		return figures{}, fmt.Errorf("rdmaperf printed no result: %w: %s", err, lastLines(out))
	}
	r := said.Results[0]
	if c.latency() {
		return figures{message: r.Latency.P50, p99: r.Latency.P99}, nil
	}
	return figures{message: r.Seconds * 1e6 / float64(r.Messages)}, nil
}
