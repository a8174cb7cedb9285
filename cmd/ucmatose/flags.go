// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
)

const (
	defaultPort  = "7471"
	maxConns     = 1 << 20
	maxMessages  = 1 << 20
	maxMessage   = 1 << 30 // bytes
	flagSpec     = "s:b:f:P:c:C:S:t:p:a:m"
	defaultSize  = 100
	defaultCount = 10
)

// options holds the parsed command line.
type options struct {
	names      tool.Names // -s, without which this is the server, -b, -p, -f, -P
	conns      int        // -c
	count      int        // -C, messages on each connection; 0 if they would be empty
	size       int        // -S, bytes
	migrate    bool       // -m
	tos        *uint8     // -t
	ackTimeout *uint8     // -a
}

// parse parses the command line.
func parse(args []string, u *tool.UI) (*options, error) {
	opt := &options{
		names: tool.Names{Service: defaultPort, Space: cm.PortSpaceTCP},
		conns: 1, count: defaultCount, size: defaultSize,
	}
	flags, rest, err := tool.Getopt(flagSpec, args)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("unexpected argument %q: use -s for a server", rest[0])
	}
	for _, f := range flags {
		switch f.Name {
		case 's':
			opt.names.Dest = f.Value
		case 'b':
			opt.names.Source = f.Value
		case 'p':
			opt.names.Service = f.Value
		case 'f':
			if opt.names.Format, err = tool.ParseFormat(f.Value); err != nil {
				u.Errorf("Warning: %v\n", err)
				err = nil
			}
		case 'P':
			switch {
			case tool.HasPrefixFold(f.Value, "ib"):
				opt.names.Space = cm.PortSpaceIB
			case !tool.HasPrefixFold(f.Value, "tcp"):
				u.Errorf("Warning: unknown port space format\n")
			}
		case 'm':
			opt.migrate = true
		case 'c':
			opt.conns, err = f.Int(0, maxConns)
		case 'C':
			opt.count, err = f.Int(0, maxMessages)
		case 'S':
			opt.size, err = f.Int(0, maxMessage)
		case 't':
			opt.tos, err = octet(f)
		case 'a':
			opt.ackTimeout, err = octet(f)
		}
		if err != nil {
			return nil, err
		}
	}
	if opt.size == 0 {
		opt.count = 0
	}
	return opt, nil
}

func octet(f tool.Flag) (*uint8, error) {
	n, err := f.Octet()
	return &n, err
}

const usage = `	[-s server_address]
	[-b bind_address]
	[-f address_format]
	    name, ip, ipv6, or gid
	[-P port_space]
	    tcp or ib
	[-c connections]
	[-C message_count]
	[-S message_size]
	[-t type_of_service]
	[-p port_number]
	[-m(igrate)]
	[-a ack_timeout]
`
