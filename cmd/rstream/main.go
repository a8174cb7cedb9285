// SPDX-License-Identifier: Apache-2.0

// Rstream measures the latency and the bandwidth of rsockets. It has the flags, output and protocol
// of rdma-core's rstream, so that either side may be the C program.
//
// With -T a or -T b, a goroutine that waits for data sleeps. Otherwise it polls, as the C program
// does. With -T f the C server forks a process for each connection, which this program need not do.
package main

import (
	"purerdma/cmd/internal/streamtest"
	"purerdma/cmd/internal/tool"
)

var program = streamtest.Kind{Name: "rstream", TestOptions: "sabfnrv", KeepAlive: true, Run: transfer}

func main() { tool.Main(program.Main) }

// transfer runs the transfers of a test.
func transfer(s *streamtest.Session, t streamtest.Test) error {
	if err := s.Sync(true); err != nil {
		return err
	}
	for range t.Iterations {
		if err := s.Exchange(t.Size, t.Count); err != nil {
			return err
		}
	}
	return nil
}
