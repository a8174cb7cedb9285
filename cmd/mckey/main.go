// SPDX-License-Identifier: Apache-2.0

// Mckey joins a multicast group, and sends messages to it or receives as many: the
// mckey of rdma-core, with its flags, output and protocol, so that either side may
// be that program.
//
// Between joining and sending it waits for three seconds, as there. Datagrams may
// be lost; then the receiver waits for ever. A group that cannot be joined fails the run;
// the C program's may end with status 0 then, as leaving does.
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
