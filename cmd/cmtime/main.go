// SPDX-License-Identifier: Apache-2.0

// Cmtime measures the time of each step of making and ending many connections. It has the
// flags, output and protocol of rdma-core's cmtime, so that either side may be the C program.
//
// The C program has several incompatible versions. This program implements two of them. Up to
// version 51 the server, which has no -s, never ends by itself. From version 60 on (65 has
// equal flags) the peers meet over TCP at the address of -C, accept any number of peers, and
// measure in three rounds. Any of -B -C -L -m -n -P -q -S selects the newer version, in which
// -S takes a value that is ignored. The versions between 51 and 60 are not supported.
//
// It is stricter than the C program:
//
//   - Up to version 51 the C program may end with status 0 although connections have failed. This program prints their number and ends with 255.
//   - Like the newer C program, the newer version ends with status 1 at the first failure.
//   - The newer version ends with an error if a peer does not reach the next step within a time limit, which is 10 minutes or
//     more. With -S it ends if the client does not connect the next socket within a minute.
//   - A server that is stopped by a signal ends like a process that the signal kills, which is 128 plus the signal's number in a shell.
//   - Numbers must be numbers and in range.
//   - Arguments without a flag are rejected.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime/debug"

	"purerdma/cmd/internal/tool"
)

// statusUsage is the exit status for a bad command line, and for a machine without RDMA.
const statusUsage = 1

// gcPercent lets the heap grow to five times its live size before a collection. Nearly all
// allocations belong to connections and live as long as these. Without collections, the server
// of 3,000 connections takes 1.0 s of user time instead of 1.3 s.
const gcPercent = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	tool.Main(run)
}

// run runs the program until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if isMesh(args) {
		return runMesh(ctx, args, stdout, stderr)
	}
	u := tool.NewUI("cmtime", stdout, stderr)
	opt, err := parse(args)
	if err != nil {
		u.Usage(err, usage)
		u.Errorf("with any of -B -C -L -m -n -P -q -S, as in version 60 and later:\n%s", meshUsage)
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
