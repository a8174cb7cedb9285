// SPDX-License-Identifier: Apache-2.0

// Ucmatose makes a set of connections between two hosts, sends messages over each
// of them both ways, and disconnects: the ucmatose of rdma-core, with its flags,
// output and protocol, so that either side may be that program.
//
// The server sends first. When it has all of the client's messages it
// disconnects.
//
// It is stricter than the C program. That one takes a message that has failed for one
// that went well: a server with a larger -C or -S than its client's ends with status 0
// there, and here with 255 (-1) and the cause. (With the larger -C on the client both
// sides wait for ever, in either program.) Numbers must be numbers, and in range; an
// argument that belongs to no flag is refused; a device that goes away ends the run.
//
// -f gid reads -s and -b as GIDs, which are written like addresses of IPv6. The C
// program also takes IPv4 addresses there, and makes GIDs of what lies behind them in its
// memory: most often the zero GID, so that its server listens on every device. They are
// refused here, as an address family that does not fit.
package main

import (
	"context"
	"io"

	"purerdma/cmd/internal/tool"
)

// statusUsage is the exit status of a bad command line, and of a machine without
// RDMA.
const statusUsage = 1

func main() { tool.Main(run) }

// run is the program. It ends with ctx.
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
