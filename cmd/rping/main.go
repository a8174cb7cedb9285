// SPDX-License-Identifier: Apache-2.0

// Rping connects two hosts with RDMA and bounces data between them. It is compatible with the
// rping of rdma-core in flags, output and protocol, so that either side may be the C program.
//
// For each ping the client sends the address, key and length of a buffer to the server. The
// server reads the buffer by RDMA READ and sends a message. The client then sends the address
// of a second buffer. The server writes the data into it by RDMA WRITE and sends a message.
//
// It is stricter than the C program:
//
//   - If the server leaves before the client has done all pings, the client fails with status 255, not 0.
//   - Data without the terminating NUL fails the server.
//   - Values of -p, -S and -C must be numbers.
//   - Arguments without a flag are rejected.
//
// With -d it prints the lines of the C program, except lines about objects that the library
// creates or does not have. These are "created" of cm_id, channel and cq, "destroy cm_id", and
// "cq_thread started.". It prints "send completion" when it reads the completion, before the
// next request. It does not print that line for the last message. Lines of events contain the
// ID's number instead of its address.
package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"

	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

// Exit statuses of the C program. Bad usage has an errno. Other failures have -1 or a negative
// code of getaddrinfo(3), of which the shell gets one byte.
const (
	statusOK       = 0
	statusNoDevice = 19  // ENODEV
	statusUsage    = 22  // EINVAL
	statusFailed   = 255 // -1
)

func main() { tool.Main(run) }

// run runs the program until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	u := newUI(stdout, stderr)
	opt, status := parse(args, u, func(host string) (netip.Addr, error) { return tool.LookupHost(ctx, host) })
	if opt == nil {
		return status
	}
	if opt.debug {
		verbs.DefaultHost().Log = slog.New(eventLog{u, opt.server})
	}
	var err error
	switch {
	case !opt.server:
		err = runClient(ctx, opt, u)
	case opt.persistent:
		err = runPersistentServer(ctx, opt, u)
	default:
		err = runServer(ctx, opt, u)
	}
	if werr := u.Failure(); werr != nil {
		err = errors.Join(err, werr)
	}
	if err == nil {
		return statusOK
	}
	if ctx.Err() == nil {
		u.fail(err)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return statusNoDevice
	}
	return statusFailed
}
