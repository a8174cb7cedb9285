// SPDX-License-Identifier: Apache-2.0

package pingpong

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

// flag is a flag with its line in the usage.
type flag struct {
	tool.LongFlag
	usage string
}

// Flags of the programs. The usage equals the C programs' to the byte.
var (
	flagPort   = flag{tool.LongFlag{Name: 'p', Long: "port", Arg: true}, "  -p, --port=<port>      listen on/connect to port <port> (default 18515)\n"}
	flagDev    = flag{tool.LongFlag{Name: 'd', Long: "ib-dev", Arg: true}, "  -d, --ib-dev=<dev>     use IB device <dev> (default first device found)\n"}
	flagIBPort = flag{tool.LongFlag{Name: 'i', Long: "ib-port", Arg: true}, "  -i, --ib-port=<port>   use port <port> of IB device (default 1)\n"}
	flagSize   = flag{tool.LongFlag{Name: 's', Long: "size", Arg: true}, "  -s, --size=<size>      size of message to exchange (default 4096)\n"}
	flagMTU    = flag{tool.LongFlag{Name: 'm', Long: "mtu", Arg: true}, "  -m, --mtu=<size>       path MTU (default 1024)\n"}
	flagQPs    = flag{tool.LongFlag{Name: 'q', Long: "num-qp", Arg: true}, "  -q, --num-qp=<num>     number of QPs to use (default 16)\n"}
	flagDepth  = flag{tool.LongFlag{Name: 'r', Long: "rx-depth", Arg: true}, "  -r, --rx-depth=<dep>   number of receives to post at a time (default 500)\n"}
	flagIters  = flag{tool.LongFlag{Name: 'n', Long: "iters", Arg: true}, "  -n, --iters=<iters>    number of exchanges (default 1000)\n"}
	flagSL     = flag{tool.LongFlag{Name: 'l', Long: "sl", Arg: true}, "  -l, --sl=<sl>          service level value\n"}
	flagEvents = flag{tool.LongFlag{Name: 'e', Long: "events"}, "  -e, --events           sleep on CQ events (default poll)\n"}
	flagGID    = flag{tool.LongFlag{Name: 'g', Long: "gid-idx", Arg: true}, "  -g, --gid-idx=<gid index> local port gid index\n"}
	flagODP    = flag{tool.LongFlag{Name: 'o', Long: "odp"}, "  -o, --odp\t\t    use on demand paging\n"}
	flagCheck  = flag{tool.LongFlag{Name: 'c', Long: "chk"}, "  -c, --chk              validate received buffer\n"}

	rcFlags = []flag{
		flagPort, flagDev, flagIBPort, flagSize, flagMTU, flagDepth, flagIters, flagSL, flagEvents, flagGID, flagODP,
		{tool.LongFlag{Name: 'O', Long: "iodp"}, "  -O, --iodp\t\t    use implicit on demand paging\n"},
		{tool.LongFlag{Name: 'P', Long: "prefetch"}, "  -P, --prefetch\t    prefetch an ODP MR\n"},
		{tool.LongFlag{Name: 't', Long: "ts"}, "  -t, --ts\t            get CQE with timestamp\n"},
		{flagCheck.LongFlag, "  -c, --chk\t            validate received buffer\n"},
		{tool.LongFlag{Name: 'j', Long: "dm"}, "  -j, --dm\t            use device memory\n"},
		{tool.LongFlag{Name: 'N', Long: "new_send"}, "  -N, --new_send            use new post send WR API\n"},
		// Flag of rdma-core after version 64. It is not in the usage of earlier versions.
		{tool.LongFlag{Name: 'U', Long: "allow-cc-unprotected"}, ""},
	}
	ucFlags = []flag{flagPort, flagDev, flagIBPort, flagSize, flagMTU, flagDepth, flagIters, flagSL, flagEvents, flagGID, flagCheck}
	udFlags = []flag{
		flagPort, flagDev, flagIBPort,
		{flagSize.LongFlag, "  -s, --size=<size>      size of message to exchange (default 2048)\n"}, // the actual default differs
		flagDepth, flagIters,
		{flagSL.LongFlag, "  -l, --sl=<SL>          send messages with service level <SL> (default 0)\n"},
		flagEvents, flagGID, flagCheck,
	}
	srqFlags = []flag{
		flagPort, flagDev, flagIBPort, flagSize, flagMTU, flagQPs, flagDepth,
		{flagIters.LongFlag, "  -n, --iters=<iters>    number of exchanges per QP(default 1000)\n"}, // the actual number is for all QPs
		flagSL, flagEvents, flagGID, flagODP, flagCheck,
	}
)

// options holds the parsed command line.
type options struct {
	server  string // "" on the server
	port    int
	dev     string
	ibPort  int
	size    int
	mtu     verbs.MTU
	qps     int
	depth   int // number of receives
	iters   int
	sl      int
	gid     int // -1: default
	events  bool
	odp     bool
	iodp    bool
	fetch   bool
	ts      bool
	check   bool
	dm      bool
	newSend bool
	unprot  bool // share memory of a confidential guest with its host

	patience time.Duration // not a flag
}

// usage prints the C program's text for a bad command line.
func (k Kind) usage(u *tool.UI) {
	s := "Usage:\n" +
		"  " + u.Path + "            start a server and wait for connection\n" +
		"  " + u.Path + " <host>     connect to server at <host>\n\nOptions:\n"
	for _, f := range k.flags {
		s += f.usage
	}
	u.Printf("%s", s)
}

// parse parses the command line. It prints failures.
func (k Kind) parse(u *tool.UI, args []string) (*options, error) {
	var all []tool.LongFlag
	for _, f := range k.flags {
		all = append(all, f.LongFlag)
	}
	flags, rest, err := tool.GetoptLong(all, args)
	o := &options{port: 18515, ibPort: 1, size: k.size, mtu: verbs.MTU1024, qps: 1, depth: 500, iters: 1000, gid: -1, patience: patience}
	if k.SRQ {
		o.qps = 16
	}
	for _, f := range flags {
		if err := o.set(f); err != nil {
			u.Fail(err)
			k.usage(u)
			return nil, err
		}
	}
	if err == nil && len(rest) > 1 {
		err = fmt.Errorf("unexpected argument %q", rest[1])
		u.Fail(err)
		k.usage(u)
		return nil, err
	}
	if err != nil {
		u.Errorf("%s: %v\n", u.Path, err)
		k.usage(u)
		return nil, err
	}
	if len(rest) == 1 {
		o.server = rest[0]
	}
	if why := k.contradiction(o); why != "" {
		u.Errorf("%s\n", why)
		return nil, errors.New(why)
	}
	return o, nil
}

// contradiction returns the C program's message for flags that exclude each other.
func (k Kind) contradiction(o *options) string {
	switch {
	case o.odp && o.dm:
		return "DM memory region can't be on demand"
	case o.unprot && o.odp:
		return "CoCo unprotected memory cannot be used with ODP"
	case o.unprot && o.dm:
		return "CoCo unprotected memory cannot be used with device memory"
	case !o.odp && o.fetch:
		return "prefetch is valid only with on-demand memory region"
	case k.SRQ && o.qps > o.depth:
		return fmt.Sprintf("rx_depth %d is too small for %d QPs -- must have at least one receive per QP.", o.depth, o.qps)
	case k.SRQ && o.qps >= maxQPs:
		return fmt.Sprintf("num_qp %d must be less than %d", o.qps, maxQPs-1)
	}
	return ""
}

func (o *options) set(f tool.Flag) (err error) {
	switch f.Name {
	case 'p':
		o.port, err = number(f, 0, 65535)
	case 'd':
		o.dev = f.Value
	case 'i':
		o.ibPort, err = number(f, 1, 255)
	case 's':
		o.size, err = number(f, 1, math.MaxInt32-verbs.GRHLen)
	case 'm':
		var n int
		n, err = number(f, 256, 4096)
		o.mtu = 0
		for m := verbs.MTU256; m <= verbs.MTU4096; m++ {
			if m.Bytes() == n {
				o.mtu = m
			}
		}
		if err == nil && o.mtu == 0 {
			err = fmt.Errorf("-m %s: unknown MTU", f.Value)
		}
	case 'q':
		o.qps, err = number(f, 1, math.MaxInt32)
	case 'r':
		o.depth, err = number(f, 1, math.MaxInt32-maxQPs)
	case 'n':
		o.iters, err = number(f, 0, math.MaxInt32)
	case 'l':
		o.sl, err = number(f, 0, 15)
	case 'g':
		o.gid, err = number(f, -1, math.MaxInt32)
	case 'e':
		o.events = true
	case 'o':
		o.odp = true
	case 'O':
		o.odp, o.iodp = true, true
	case 'P':
		o.fetch = true
	case 't':
		o.ts = true
	case 'c':
		o.check = true
	case 'j':
		o.dm = true
	case 'N':
		o.newSend = true
	case 'U':
		o.unprot = true
	}
	return err
}

// number parses a number that may be hexadecimal or octal, as the C programs do.
func number(f tool.Flag, lo, hi int) (int, error) {
	n, err := strconv.ParseInt(f.Value, 0, 64)
	if err != nil || n < int64(lo) || n > int64(hi) {
		return 0, fmt.Errorf("-%c %s: want a number from %d to %d", f.Name, f.Value, lo, hi)
	}
	return int(n), nil
}
