// SPDX-License-Identifier: Apache-2.0

// Ucmatose makes a set of connections between two hosts, sends messages over each of them both
// ways, and disconnects. It has the flags, output and protocol of rdma-core's ucmatose, so that
// either side may be the C program.
//
// The server sends first. When it has received all of the client's messages it disconnects.
//
// It is stricter than the C program:
//
//   - The C program counts a failed message as a success. If its -C or -S is larger than its client's, the C server ends with status 0. This program ends with status 255 (-1) and prints the cause. With a larger -C on the client, both sides wait forever in either program.
//   - Numbers must be numbers and in range.
//   - Arguments without a flag are rejected.
//   - The removal of a device ends the run.
//
// With -f gid, -s and -b are GIDs, which are written like IPv6 addresses. The C program
// accepts IPv4 addresses there but reads beyond them in its memory. The result is usually the
// zero GID, so that its server listens on every device. This program rejects them as an
// unsupported address family.
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
	u := tool.NewUI("ucmatose", stdout, stderr)
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
