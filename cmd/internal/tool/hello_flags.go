// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"context"
	"fmt"
	"io"

	"purerdma/cm"
	"purerdma/cmd/internal/addrinfo"
)

const helloUsage = `	[-s server_address]
	[-p port_number]
`

const helloPort = "7471"

// HelloProgram returns the program of either side. It parses the command line, whose -s is
// optional, and passes the names to run. run prints its failures.
func HelloProgram(name, server string, run func(context.Context, *UI, Names) error) Program {
	return func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		u := NewUI(name, stdout, stderr)
		names, err := helloFlags(args, server)
		if err != nil {
			u.Usage(err, helloUsage)
			return 1
		}
		u.Printf("%s: start\n", name)
		status := Status(run(ctx, u, names))
		u.Printf("%s: end %d\n", name, status)
		if err := u.Failure(); err != nil && status == 0 {
			u.Fail(err)
			status = StatusFailed
		}
		return status & 0xFF
	}
}

// helloFlags parses the command line. The address of -s applies to either side.
func helloFlags(args []string, server string) (Names, error) {
	names := Names{Dest: server, Service: helloPort, Space: cm.PortSpaceTCP}
	flags, rest, err := Getopt("s:p:", args)
	if err != nil {
		return names, err
	}
	if len(rest) > 0 {
		return names, fmt.Errorf("unexpected argument %q: use -s for an address", rest[0])
	}
	for _, f := range flags {
		switch f.Name {
		case 's':
			names.Dest = f.Value
		case 'p':
			names.Service = f.Value
		}
	}
	return names, nil
}

// HelloAddress resolves the address of -s.
func HelloAddress(ctx context.Context, u *UI, names Names) (cm.Addr, error) {
	_, addr, err := names.Resolve(ctx)
	if err != nil {
		u.Printf("rdma_getaddrinfo: %s\n", addrinfo.Strerror(err))
		u.Fail(err)
	}
	return addr, err
}
