// SPDX-License-Identifier: Apache-2.0

// Rping connects two hosts with RDMA and bounces data between them: the rping of
// rdma-core, with its flags, output and protocol, so that either side may be
// that program.
//
// For each ping the client names a buffer to the server (address, key, length),
// the server reads it by RDMA READ and says so; the client names a second
// buffer, the server writes the data into that by RDMA WRITE and says so.
//
// It is stricter than the C program. A server that leaves before the client has done
// all pings of -C fails the client with status 255, and not with 0; data without the NUL
// that ends it fails the server. In -p, -S and -C numbers must be numbers, and an argument
// that belongs to no flag is refused.
//
// -d prints the lines of the C program but for those about what has no counterpart here
// or is made by the library: "created" of cm_id, channel and cq, "destroy cm_id",
// "cq_thread started.". A "send completion" is printed when it is looked at, before the
// next request; that of the last message is not. Of events the ID's number stands for its
// address.
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

// Exit statuses, those of the C program: an errno for bad usage, otherwise -1,
// or a negative code of getaddrinfo(3), of which the shell sees one byte.
const (
	statusOK       = 0
	statusNoDevice = 19  // ENODEV
	statusUsage    = 22  // EINVAL
	statusFailed   = 255 // -1
)

func main() { tool.Main(run) }

// run is the program. It ends with ctx.
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
