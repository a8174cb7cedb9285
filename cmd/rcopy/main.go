// SPDX-License-Identifier: Apache-2.0

// Rcopy copies a file to another host over an rsocket. It has the arguments, output and protocol of
// rdma-core's rcopy, so that either side may be the C program.
//
// As in C, the server writes to any path that a client names, with its own rights. Run it only among
// trusted hosts.
package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
)

const (
	port        = "7427" // without a flag, as in C
	statusUsage = 1
)

func main() { tool.Main(run) }

// run runs the program until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	u := tool.NewUI("rcopy", stdout, stderr)
	opt, err := parse(args)
	if err != nil {
		u.Errorf("%s: %v\n", u.Path, err)
		u.Printf(usage, u.Path, u.Path)
		return statusUsage
	}
	local, remote, err := opt.names.Resolve(ctx)
	if err != nil {
		u.FailLookup("getaddrinfo failed", err)
		return tool.Status(err) & 0xff
	}
	if opt.names.Dest == "" {
		err = serve(ctx, u, local)
	} else {
		err = send(ctx, u, remote, opt.source, opt.dest)
	}
	if err != nil {
		u.Fail(err)
	}
	return tool.Status(err) & 0xff
}

// options holds the parsed command line.
type options struct {
	names        tool.Names
	source, dest string // paths on the client and on the server
}

var errArguments = errors.New("want a source and a server, or only flags")

// parse parses the command line. Without arguments, this is the server.
func parse(args []string) (*options, error) {
	opt := &options{names: tool.Names{Service: port, Space: cm.PortSpaceTCP}}
	flags, rest, err := tool.Getopt("p:", args)
	if err != nil {
		return nil, err
	}
	for _, f := range flags {
		opt.names.Service = f.Value
	}
	switch len(rest) {
	case 0:
		return opt, nil
	case 2:
		opt.source, opt.dest = rest[0], rest[0]
		server, path, found := strings.Cut(rest[1], ":")
		opt.names.Dest = server
		if found {
			opt.dest = path
		}
		return opt, nil
	}
	return nil, errArguments
}

const usage = `usage 1: %s [options]
	     starts the server application
	[-p  port_number]
usage 2: %s source server[:destination] [options]
	     source - file name and path
	     server - name or address
	     destination - file name and path
	[-p  port_number]
`
