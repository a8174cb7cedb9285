// SPDX-License-Identifier: Apache-2.0

// Cmtime measures how long each step of making and ending many connections takes:
// the cmtime of rdma-core, with its flags, output and protocol, so that either
// side may be that program.
//
// There are several of it, which cannot talk to each other, and this is two. Up to
// version 51 the server, which has no -s, never ends by itself. From version 60 on
// (65 has the same flags) they meet over TCP at the address that -C gives, take any
// number of peers, and measure in three rounds: any of -B -C -L -m -n -P -q -S stands
// for those. -S takes a value there, which does not count. Those in between are neither.
//
// It is stricter than the C program. Up to version 51 that may end with status 0 though
// connections have failed; this says how many, and ends with 255. The newer one ends with
// 1 at the first failure, and so does this. A server that is stopped by a signal ends as
// one that the signal ends: 128 and its number to a shell. Numbers must be numbers, and
// in range; an argument that belongs to no flag is refused.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime/debug"

	"purerdma/cmd/internal/tool"
)

// statusUsage is the exit status of a bad command line, and of a machine without
// RDMA.
const statusUsage = 1

// gcPercent lets the heap grow to five times what lives before it is collected: nearly
// all that is allocated here is connections, and lives as long as they do. Without
// collecting, the server of 3,000 takes 1.0 s of user time for 1.3.
const gcPercent = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	tool.Main(run)
}

// run is the program. It ends with ctx.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if isMesh(args) {
		return runMesh(ctx, args, stdout, stderr)
	}
	u := tool.NewUI("cmtime", stdout, stderr)
	opt, err := parse(args)
	if err != nil {
		u.Usage(err, usage)
		u.Errorf("with any of -B -C -L -m -n -P -q -S, as from version 60 on:\n%s", meshUsage)
		return statusUsage
	}
	ch, err := tool.OpenChannel(u)
	if err != nil {
		return statusUsage
	}
	defer ch.Close()
	if opt.names.Dest == "" {
		err = runServer(ctx, ch, opt, u)
	} else {
		err = runClient(ctx, ch, opt, u)
	}
	if werr := u.Failure(); werr != nil {
		u.Fail(werr)
		err = errors.Join(err, werr)
	}
	return tool.Status(err) & 0xFF
}
