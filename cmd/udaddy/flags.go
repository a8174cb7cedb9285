// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
)

const (
	flagSpec     = "s:b:c:C:S:t:p:P:f:"
	port         = "7174" // without a flag, as in C
	defaultSize  = 100
	defaultCount = 10
	maxConns     = 1 << 20
	maxMessages  = 1 << 20
	maxMessage   = 1 << 30 // bytes
)

// options holds the parsed command line.
type options struct {
	names tool.Names // -s, without which this is the server, -b, -f, -P, -p
	conns int        // -c
	count int        // -C, messages to each destination; 0 if they would be empty
	size  int        // -S, bytes
	tos   *uint8     // -t
}

// parse parses the command line.
func parse(args []string, u *tool.UI) (*options, error) {
	opt := &options{
		names: tool.Names{Service: port, Space: cm.PortSpaceUDP},
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
		case 'c':
			opt.conns, err = f.Int(0, maxConns)
		case 'C':
			opt.count, err = f.Int(0, maxMessages)
		case 'S':
			opt.size, err = f.Int(0, maxMessage)
		case 't':
			var tos uint8
			tos, err = f.Octet()
			opt.tos = &tos
		case 'p':
			opt.names.Space, err = tool.PortSpace(f)
		case 'P':
			switch {
			case tool.HasPrefixFold(f.Value, "ipoib"):
				opt.names.Space = cm.PortSpaceIPoIB
			case !tool.HasPrefixFold(f.Value, "udp"):
				u.Errorf("Warning: unknown port space format\n")
			}
		case 'f':
			if opt.names.Format, err = tool.ParseFormat(f.Value); err != nil {
				u.Errorf("Warning: %v\n", err)
				err = nil
			}
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

const usage = `	[-s server_address]
	[-b bind_address]
	[-f address_format]
	    name, ip, ipv6, or gid
	[-P port_space]
	    udp or ipoib
	[-c connections]
	[-C message_count]
	[-S message_size]
	[-t type_of_service]
	[-p port_space - 0x111 for UDP (default), 0x2 for IPOIB]
`
