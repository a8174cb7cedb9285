// SPDX-License-Identifier: Apache-2.0

// Udaddy looks up a set of datagram destinations on another host and sends
// messages to each of them, which are answered: the udaddy of rdma-core, with its
// flags, output and protocol, so that either side may be that program.
//
// A message carries the number of the QP that it comes from as immediate data,
// which is where the answers go. Datagrams may be lost; then both programs wait
// for ever.
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
