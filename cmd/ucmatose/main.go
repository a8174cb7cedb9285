// SPDX-License-Identifier: Apache-2.0

// Ucmatose makes a set of connections between two hosts, sends messages over each
// of them both ways, and disconnects: the ucmatose of rdma-core, with its flags,
// output and protocol, so that either side may be that program.
//
// The server sends first. When it has all of the client's messages it
// disconnects.
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
