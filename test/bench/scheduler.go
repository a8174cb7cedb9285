// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
)

// benchScheduler measures the cost of Go's scheduler and garbage collector on the data path. It compares
// rdmaperf with itself, each time without one of their mechanisms.
func benchScheduler(ctx context.Context, e *env) error {
	for _, without := range []struct{ what, environ string }{
		{"signals that preempt loops", "GODEBUG=asyncpreemptoff=1"},
		{"garbage collection", "GOGC=off"},
		{"a second processor for goroutines", "GOMAXPROCS=1"},
	} {
		fmt.Printf(" without %s (%s); what is below 1, they cost:\n", without.what, without.environ)
		for _, c := range []cell{
			{test: "send_bw", size: 8, qps: 1, list: 1},
			{test: "send_bw", size: 8, qps: 1, list: 16},
			{test: "send_lat", size: 8, qps: 1, list: 1},
			{test: "send_lat", size: 8, qps: 1, list: 1, events: true},
			{test: "write_bw", size: 64 << 10, qps: 1, list: 1},
		} {
			message, _, err := e.alternate(ctx, c, rdmaperf, func(ctx context.Context, e *env, c cell) (figures, error) {
				return rdmaperfWith(ctx, e, c, without.environ)
			})
			if err != nil {
				return err
			}
			fmt.Printf(" %-32s", c)
			message.printAs("with", "without", "us")
		}
	}
	return nil
}
