// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"

	"purerdma/cmd/internal/addrinfo"
	"purerdma/cmd/internal/tool"
)

const (
	defaultPort = 7174
	defaultSize = 64
	// minSize is the space for the text of any ping number, as the C program computes it.
	minSize = 23
	maxSize = 64<<10 - 1
)

// options holds the parsed command line.
type options struct {
	server     bool
	persistent bool       // -P, serve clients until killed
	addr       netip.Addr // -a, the zero Addr if not given.
	source     netip.Addr // -I, the zero Addr if not given.
	port       uint16     // -p
	count      int        // -C, 0 for no limit.
	size       int        // -S, in bytes.
	verbose    bool       // -v, print the data
	validate   bool       // -V, compare the data
	debug      bool       // -d
	selfQP     bool       // -q, create and move the QP without cm
}

// flagSpec lists the flags for getopt(3). -t is in the C program's list and does nothing there.
const flagSpec = "a:I:p:C:S:t:PscvVdq"

// parse parses the command line. Without options it returns the exit status, after printing
// everything.
func parse(args []string, u *printer, lookup func(string) (netip.Addr, error)) (*options, int) {
	opt := &options{port: defaultPort, size: defaultSize}
	status := statusOK
	side := false
	flags, rest, err := tool.Getopt(flagSpec, args)
	ok := err == nil
	for _, f := range flags {
		switch f.Name {
		case 'a', 'I':
			ip, err := lookup(f.Value)
			if err != nil {
				status = lookupFailed(u, f, err)
				break
			}
			if f.Name == 'a' {
				opt.addr = ip
			} else {
				opt.source = ip
			}
		case 'P':
			opt.persistent = true
		case 'p':
			port, err := tool.Number(f.Value, 0, 1<<16-1)
			if err != nil {
				u.Errorf("Invalid port %s (valid range is 0 to %d)\n", f.Value, 1<<16-1)
				status = statusUsage
				break
			}
			opt.port = uint16(port)
			u.debugf("port %d\n", port)
		case 's', 'c':
			side, opt.server = true, f.Name == 's'
			u.debugf("%s\n", map[bool]string{true: "server", false: "client"}[opt.server])
		case 'S':
			size, err := tool.Number(f.Value, minSize, maxSize)
			if err != nil {
				// The C program's message names 65536, but it accepts only 65535.
				u.Errorf("Invalid size %s (valid range is %d to %d)\n", f.Value, minSize, maxSize+1)
				if size == maxSize+1 {
					u.Errorf("rping: -S %s: the largest size is %d\n", f.Value, maxSize)
				}
				status = statusUsage
				break
			}
			opt.size = size
			u.debugf("size %d\n", size)
		case 'C':
			count, err := tool.Number(f.Value, 0, 1<<31-1)
			if err != nil {
				u.Errorf("Invalid count %s\n", f.Value)
				status = statusUsage
				break
			}
			opt.count = count
			u.debugf("count %d\n", count)
		case 'v':
			opt.verbose = true
			u.debugf("verbose\n")
		case 'V':
			opt.validate = true
			u.debugf("validate data\n")
		case 'd':
			opt.debug, u.debug = true, true
		case 'q':
			opt.selfQP = true
		default:
			ok = false
		}
	}
	switch {
	case !ok || status == statusOK && !side:
		u.Printf("%s", usage)
		return nil, statusUsage
	case status != statusOK:
		return nil, status
	case len(rest) > 0:
		u.Errorf("rping: unexpected argument %q: use -a for an address\n", rest[0])
		return nil, statusUsage
	}
	return opt, statusOK
}

// lookupFailed reports a host that has no address. It returns the exit status.
func lookupFailed(u *printer, f tool.Flag, err error) int {
	u.Printf("getaddrinfo failed (%s) - invalid hostname or IP address\n", addrinfo.Strerror(err))
	u.Errorf("rping: -%c %s: %v\n", f.Name, f.Value, err)
	return tool.Status(err) & 0xFF
}

const usage = `rping -s [-vVd] [-S size] [-C count] [-a addr] [-p port]
rping -c [-vVd] [-S size] [-C count] [-I addr] -a addr [-p port]
	-c		client side
	-I		Source address to bind to for client.
	-s		server side.  To bind to any address with IPv6 use -a ::0
	-v		display ping data to stdout
	-V		validate ping data
	-d		debug printfs
	-S size 	ping data size
	-C count	ping count times
	-a addr		address
	-p port		port
	-P		persistent server mode allowing multiple connections
	-q		use self-created, self-modified QP
`
