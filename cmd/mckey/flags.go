// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"purerdma/cm"
	"purerdma/cmd/internal/tool"
)

const (
	flagSpec     = "m:M:sb:c:C:S:p:ol"
	defaultSize  = 100
	defaultCount = 10
	maxConns     = 1 << 20
	maxMessages  = 1 << 20
	maxMessage   = 1 << 30 // bytes
)

// options holds the parsed command line.
type options struct {
	group      string // -m, or -M
	unmapped   bool   // -M, the group is a GID
	sender     bool   // -s
	bind       string // -b
	conns      int    // -c
	count      int    // -C, messages; 0 if they would be empty
	size       int    // -S, bytes
	space      cm.PortSpace
	sendOnly   bool // -o
	noLoopback bool // -l
}

// errNoGroup reports a command line without a group, which crashes the C program.
var errNoGroup = errors.New("missing multicast address (-m or -M)")

// parse parses the command line.
func parse(args []string) (*options, error) {
	opt := &options{conns: 1, count: defaultCount, size: defaultSize, space: cm.PortSpaceUDP}
	flags, rest, err := tool.Getopt(flagSpec, args)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("unexpected argument %q: use -m for a group", rest[0])
	}
	for _, f := range flags {
		switch f.Name {
		case 'm':
			opt.group = f.Value
		case 'M':
			opt.group, opt.unmapped = f.Value, true
		case 's':
			opt.sender = true
		case 'b':
			opt.bind = f.Value
		case 'c':
			opt.conns, err = f.Int(0, maxConns)
		case 'C':
			opt.count, err = f.Int(0, maxMessages)
		case 'S':
			opt.size, err = f.Int(0, maxMessage)
		case 'p':
			opt.space, err = tool.PortSpace(f)
		case 'o':
			opt.sendOnly = true
		case 'l':
			opt.noLoopback = true
		}
		if err != nil {
			return nil, err
		}
	}
	if opt.group == "" {
		return nil, errNoGroup
	}
	if opt.size == 0 {
		opt.count = 0
	}
	return opt, nil
}

const usage = `	-m multicast_address
	[-M unmapped_multicast_address]
	 replaces -m and requires -b
	[-s(ender)]
	[-b bind_address]
	[-c connections]
	[-C message_count]
	[-S message_size]
	[-p port_space - 0x111 for UDP (default), 0x2 for IPOIB]
	[-o join as a send-only full-member]
	[-l join without multicast loopback]
`
