// SPDX-License-Identifier: Apache-2.0

// Mckey joins a multicast group and sends messages to it or receives as many. It has the flags,
// output and protocol of rdma-core's mckey, so that either side may be the C program.
//
// As in C, it waits for three seconds between joining and sending. If a datagram is lost, the
// receiver waits forever. A group that cannot be joined fails the run. The C program may end
// with status 0 in this case, which is the status of leaving.
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
	u := tool.NewUI("mckey", stdout, stderr)
	opt, err := parse(args)
	if err != nil {
		u.Usage(err, usage)
		return statusUsage
	}
	if opt.unmapped && opt.bind == "" {
		u.Printf("unmapped multicast address requires binding to source address\n")
		return statusUsage
	}
	t, err := newTest(opt, u)
	if err != nil {
		return statusUsage
	}
	err = t.run(ctx)
	return u.Finish(err, t.close)
}
