// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
)

const (
	flagSpec       = "s:b:c:p:r:t:"
	defaultPort    = "7471"
	defaultConns   = 100
	defaultRetries = 2
	defaultTimeout = 2000 * time.Millisecond
	maxConns       = 1 << 20
	maxTimeout     = 1 << 30 // milliseconds
)

// options holds the parsed command line.
type options struct {
	names   tool.Names    // -s, without which this is the server, -b, -p
	conns   int           // -c
	retries int           // -r, of resolving and of the connections
	timeout time.Duration // -t, of resolving
}

// parse parses the command line.
func parse(args []string) (*options, error) {
	opt := &options{
		names: tool.Names{Service: defaultPort, Space: cm.PortSpaceTCP},
		conns: defaultConns, retries: defaultRetries, timeout: defaultTimeout,
	}
	flags, rest, err := tool.Getopt(flagSpec, args)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("unexpected argument %q: use -s for a server", rest[0])
	}
	for _, f := range flags {
		var n int
		switch f.Name {
		case 's':
			opt.names.Dest = f.Value
		case 'b':
			opt.names.Source = f.Value
		case 'p':
			opt.names.Service = f.Value
		case 'c':
			opt.conns, err = f.Int(1, maxConns)
		case 'r':
			opt.retries, err = f.Int(0, maxRetries)
		case 't':
			n, err = f.Int(0, maxTimeout)
			opt.timeout = time.Duration(n) * time.Millisecond
		}
		if err != nil {
			return nil, err
		}
	}
	return opt, nil
}

// maxRetries is the maximum of the three bits of a connection's retry count.
const maxRetries = 7

const usage = `	[-s server_address]
	[-b bind_address]
	[-c connections]
	[-p port_number]
	[-r retries]
	[-t timeout_ms]
`
