// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
)

// call is a test of gRPC's benchmark service, by bin/grpcperf at both ends.
type call struct {
	kind            string // "unary" or "streaming"
	size            int    // bytes of the request and of the response
	parallel, calls int    // calls at a time, and all calls
}

// over returns a run of the calls on a network.
func (c call) over(network string) func(context.Context, *env) (figures, error) {
	return func(ctx context.Context, e *env) (figures, error) {
		program := e.program("grpcperf")
		server := []string{program, "-net", network, "-listen", e.hosts[0].IPv4.String()}
		size := strconv.Itoa(c.size)
		client := []string{program, "-net", network, "-local", e.hosts[1].IPv4.String(), "-rpc_type", c.kind, "-req", size, "-resp", size,
			"-r", strconv.Itoa(c.parallel), "-calls", strconv.Itoa(c.calls)}
		out, err := e.meet(ctx, server, client)
		if err != nil {
			return figures{}, fmt.Errorf("grpcperf: %w", err)
		}
		return parseCalls(out)
	}
}

// parseCalls parses the output of grpcperf.
func parseCalls(out []byte) (figures, error) {
	var said struct {
		Calls   int     `json:"calls"`
		Seconds float64 `json:"seconds"`
		Latency timesOf `json:"latency_us"`
	}
	if err := json.Unmarshal(out, &said); err != nil || said.Calls < 1 {
		return figures{}, fmt.Errorf("grpcperf printed no result: %w: %s", err, lastLines(out))
	}
	said.Latency.Mean = said.Seconds * 1e6 / float64(said.Calls) // of all calls together
	return said.Latency.figures()
}
