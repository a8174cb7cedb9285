// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

const (
	defaultPort = 7174
	defaultSize = 64
	// minSize is what the text of any ping number takes, as the C program
	// counts it.
	minSize = 23
	maxSize = 64<<10 - 1
)

// options are what the command line says.
type options struct {
	server     bool
	persistent bool       // -P: serve clients until killed
	addr       netip.Addr // -a; the zero Addr: not given
	source     netip.Addr // -I; likewise
	port       uint16     // -p
	count      int        // -C; 0: without end
	size       int        // -S, bytes
	verbose    bool       // -v: print the data
	validate   bool       // -V: compare the data
	debug      bool       // -d
	selfQP     bool       // -q: make and move the QP without the help of cm
}

// withValue are the flags that take a value. -t is in the C program's list and
// does nothing there.
const withValue = "aIpCSt"

// parse reads the command line like getopt(3): flags may be joined (-svV), a
// value may be joined to its flag (-C10), and what follows "--" is no flag.
// Without options it returns the exit status; everything has been printed then.
func parse(args []string, u *ui, lookup func(string) (netip.Addr, error)) (*options, int) {
	opt := &options{port: defaultPort, size: defaultSize}
	status := statusOK
	side := false
	flags, rest, ok := getopt(args)
	for _, f := range flags {
		switch f.name {
		case 'a', 'I':
			ip, err := lookup(f.value)
			if err != nil {
				status = lookupFailed(u, f, err)
				break
			}
			if f.name == 'a' {
				opt.addr = ip
			} else {
				opt.source = ip
			}
		case 'P':
			opt.persistent = true
		case 'p':
			port, err := number(f.value, 0, 1<<16-1)
			if err != nil {
				u.errorf("Invalid port %s (valid range is 0 to %d)\n", f.value, 1<<16-1)
				status = statusUsage
				break
			}
			opt.port = uint16(port)
			u.debugf("port %d\n", port)
		case 's', 'c':
			side, opt.server = true, f.name == 's'
			u.debugf("%s\n", map[bool]string{true: "server", false: "client"}[opt.server])
		case 'S':
			size, err := number(f.value, minSize, maxSize)
			if err != nil {
				// The C program names 65536, and takes 65535.
				u.errorf("Invalid size %s (valid range is %d to %d)\n", f.value, minSize, maxSize+1)
				if size == maxSize+1 {
					u.errorf("rping: -S %s: the largest size is %d\n", f.value, maxSize)
				}
				status = statusUsage
				break
			}
			opt.size = size
			u.debugf("size %d\n", size)
		case 'C':
			count, err := number(f.value, 0, 1<<31-1)
			if err != nil {
				u.errorf("Invalid count %s\n", f.value)
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
		u.printf("%s", usage)
		return nil, statusUsage
	case status != statusOK:
		return nil, status
	case len(rest) > 0:
		u.errorf("rping: unexpected argument %q: an address is given with -a\n", rest[0])
		return nil, statusUsage
	}
	return opt, statusOK
}

// flagValue is one flag of the command line.
type flagValue struct {
	name  byte
	value string
}

// getopt takes the command line apart. ok is false, and the parse ends, at a
// flag that is not there or lacks its value.
func getopt(args []string) (flags []flagValue, rest []string, ok bool) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			return flags, append(rest, args...), true
		}
		if len(arg) < 2 || arg[0] != '-' {
			rest = append(rest, arg)
			continue
		}
		for i := 1; i < len(arg); i++ {
			f := flagValue{name: arg[i]}
			switch {
			case strings.IndexByte(withValue, f.name) >= 0:
				switch {
				case i+1 < len(arg):
					f.value = arg[i+1:]
				case len(args) > 0:
					f.value, args = args[0], args[1:]
				default:
					return flags, rest, false
				}
				i = len(arg)
			case strings.IndexByte("PscvVdq", f.name) < 0:
				return flags, rest, false
			}
			flags = append(flags, f)
		}
	}
	return flags, rest, true
}

var errRange = errors.New("out of range")

// number parses a decimal number between lo and hi. Unlike atoi(3) it takes no
// number with something behind it.
func number(s string, lo, hi int) (int, error) {
	n, err := strconv.Atoi(s)
	if err == nil && (n < lo || n > hi) {
		err = errRange
	}
	return n, err
}

// lookupFailed reports a host that has no address.
func lookupFailed(u *ui, f flagValue, err error) int {
	text, status := "Name or service not known", statusNoName
	var dns *net.DNSError
	if errors.As(err, &dns) && !dns.IsNotFound {
		text, status = "Temporary failure in name resolution", statusTryAgain
	}
	u.printf("getaddrinfo failed (%s) - invalid hostname or IP address\n", text)
	u.errorf("rping: -%c %s: %v\n", f.name, f.value, err)
	return status
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
