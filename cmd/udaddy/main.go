// SPDX-License-Identifier: Apache-2.0

// Udaddy resolves a set of datagram destinations on another host and sends messages to each of
// them, which the other host answers. It has the flags, output and protocol of rdma-core's
// udaddy, so that either side may be the C program.
//
// A message contains the number of its source QP as immediate data. The answer is sent to that
// QP. If a datagram is lost, both programs wait forever.
package main

import (
	"context"
	"io"

	"purerdma/cmd/internal/tool"
)

// statusUsage is the exit status for a bad command line, and for a machine without RDMA.
const statusUsage = 1

func main() { tool.Main(run) }

// run runs the program until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	u := tool.NewUI("udaddy", stdout, stderr)
	opt, err := parse(args, u)
	if err != nil {
		u.Usage(err, usage)
		return statusUsage
	}
	t, err := newTest(opt, u)
	if err != nil {
		return statusUsage
	}
	if opt.names.Dest == "" {
		err = t.runServer(ctx)
	} else {
		err = t.runClient(ctx)
	}
	return u.Finish(err, t.close)
}
