// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"purerdma/cmd/internal/version"
	"purerdma/verbs"
)

// Limits of the command line and of the resources that a server provides to a client.
const (
	maxSize   = 1 << 30 // bytes of a message
	maxQPs    = 1 << 12
	maxDepth  = 1 << 15
	maxInline = 1 << 12
	maxMemory = 1<<31 - 1 // bytes of all buffers of one side
	maxCount  = 1 << 30

	defaultPort = 18515 // as in perftest
	atomicSize  = 8
	allSizes    = 23 // -a measures up to 2^23 bytes
)

// options holds the parsed command line.
type options struct {
	plan
	server   string      // address or name; "" runs the server
	source   string      // -B
	port     int         // -p
	host     *verbs.Host // host of the devices, without -R
	device   string      // -d
	ibPort   int         // -i
	gid      int         // -x; -1: choose one
	sizes    []int
	count    int           // -n, on each QP
	duration time.Duration // -D, instead of count
	json     bool
}

// plan holds the options that both sides of a test need.
type plan struct {
	Test       string `json:"test"` // name of the kind
	kind       kind
	Connection string `json:"connection"` // -c
	connection verbs.QPType
	CM         bool `json:"rdma_cm"`    // -R
	Max        int  `json:"max_bytes"`  // -s, or the largest of -a
	QPs        int  `json:"qps"`        // -q
	Depth      int  `json:"depth"`      // -t
	List       int  `json:"list"`       // -l
	Moderation int  `json:"moderation"` // -Q; 0: default
	Inline     int  `json:"inline"`     // -I
	Events     bool `json:"events"`     // -e
	Verify     bool `json:"verify"`
	MTU        int  `json:"mtu"`       // -m, bytes; 0: MTU of the ports
	RdAtomic   int  `json:"rd_atomic"` // -o; 0: default
	Timeout    int  `json:"timeout"`   // -u
	Strict     bool `json:"disable_pcie_relaxed"`
	CQESize    int  `json:"cqe_size"` // --cqe-size, bytes; 0: default
}

// parse parses the command line. It prints usage to w.
func parse(args []string, w io.Writer) (*options, error) {
	o := &options{host: verbs.DefaultHost(), gid: -1}
	name := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	f := flag.NewFlagSet("rdmaperf", flag.ContinueOnError)
	f.SetOutput(w)
	f.Usage = func() {
		fmt.Fprint(w, "usage: rdmaperf [-R] [-p port] [-B address] [-d device]  the server, for one test\n"+
			"       rdmaperf TEST [flags] server_address              the client\n"+
			"TEST is send, write, read or atomic, then _bw or _lat.\n")
		f.PrintDefaults()
	}
	size := f.Int("s", 0, "`bytes` of a message (65536, latency 2)")
	all := f.Bool("a", false, "all sizes from 2 to 2^23 bytes")
	f.IntVar(&o.count, "n", 0, "`messages` on each QP (1000, write_bw 5000)")
	seconds := f.Float64("D", 0, "`seconds` to run for, instead of -n")
	f.IntVar(&o.QPs, "q", 1, "`QPs` (bandwidth)")
	f.IntVar(&o.Depth, "t", 128, "`requests` outstanding on each QP (bandwidth)")
	f.IntVar(&o.List, "l", 1, "`requests` for each doorbell (bandwidth)")
	inline := -1
	f.Func("I", "`bytes` up to which a message is copied into its request (0, latency of send and write 64)", number(&inline))
	f.IntVar(&o.Moderation, "Q", 0, "`requests` for each completion (bandwidth; half of -t, at most 100)")
	f.StringVar(&o.Connection, "c", "RC", "`type` of the connection: RC, UC or UD")
	f.BoolVar(&o.Events, "e", false, "sleep until the completion event, instead of polling")
	f.BoolVar(&o.Verify, "verify", false, "verify the received data")
	f.BoolVar(&o.json, "json", false, "print one JSON object instead of the table")
	f.IntVar(&o.port, "p", defaultPort, "`port`, of the RDMA port space with -R")
	f.StringVar(&o.source, "B", "", "local `address`")
	f.BoolVar(&o.CM, "R", false, "connect through the connection manager (needed on both sides)")
	f.StringVar(&o.device, "d", "", "`device` (default: the device of -B, or the first one), without -R")
	f.IntVar(&o.ibPort, "i", 1, "`port` of the device, without -R")
	f.Func("x", "`index` of the GID (chosen by address and type), without -R", number(&o.gid))
	f.IntVar(&o.MTU, "m", 0, "`bytes` of a packet (default: MTU of the ports), without -R")
	f.IntVar(&o.RdAtomic, "o", 0, "reads and atomics in `flight` on a QP (16), without -R")
	f.IntVar(&o.Timeout, "u", 14, "`n`: a request is repeated after 4 microseconds * 2^n, without -R")
	f.BoolVar(&o.Strict, "disable_pcie_relaxed", false, "register memory without PCIe relaxed ordering (always for write_lat, as in perftest)")
	f.IntVar(&o.CQESize, "cqe-size", 0, "`bytes` of a completion of a ConnectX, 64 or 128 (MLX5_CQE_SIZE of libmlx5)")
	f.Bool("F", false, "accepted for compatibility with perftest: the processor frequency does not matter")
	version.Flag(f)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if _, err := parseKind(f.Arg(0)); err == nil && name == "" {
		return nil, fmt.Errorf("%s must come before the flags", f.Arg(0))
	}
	if f.NArg() > 1 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(1))
	}
	if o.server = f.Arg(0); o.port < 0 || o.port > 65535 {
		return nil, fmt.Errorf("-p %d: want a number from 0 to 65535", o.port)
	}
	if o.ibPort < 1 || o.ibPort > 255 || o.gid < -1 || o.gid > 255 {
		return nil, fmt.Errorf("-i %d -x %d: want numbers from 1 (-i) and 0 (-x) to 255", o.ibPort, o.gid)
	}
	if o.server == "" {
		if name != "" {
			_, err := parseKind(name)
			return o, err // the client chooses the test
		}
		return o, nil
	}
	o.Test = name
	if err := o.understand(); err != nil {
		return nil, err
	}
	if inline < 0 {
		inline = 0
		if o.kind.echo {
			inline = 64
		}
	}
	o.Inline = inline
	if o.kind.Latency {
		// As in perftest, the next request starts after the completion of the previous one. A
		// driver may send unsignaled requests differently, as siw does.
		o.Depth, o.List, o.Moderation = 1, 1, 1
	}
	if err := o.chooseSizes(*size, *all); err != nil {
		return nil, err
	}
	if err := o.chooseLength(*seconds); err != nil {
		return nil, err
	}
	return o, o.plan.check()
}

// number parses the number of a flag whose default is not a number. Package flag must not print
// such a default.
func number(to *int) func(string) error {
	return func(s string) error {
		n, err := strconv.ParseInt(s, 0, strconv.IntSize)
		if err != nil {
			return errors.New("parse error") // the text that package flag uses
		}
		*to = int(n)
		return nil
	}
}

var errAtomicSize = errors.New("atomics have 8 bytes")

func (o *options) chooseSizes(size int, all bool) error {
	switch {
	case o.kind.Op == "atomic":
		if all || size != 0 && size != atomicSize {
			return errAtomicSize
		}
		o.sizes = []int{atomicSize}
	case all && size != 0:
		return errors.New("-a and -s exclude each other")
	case all:
		for n := 1; n <= allSizes; n++ {
			o.sizes = append(o.sizes, 1<<n)
		}
	case size != 0:
		o.sizes = []int{size}
	case o.kind.Latency:
		o.sizes = []int{2}
	default:
		o.sizes = []int{1 << 16}
	}
	o.Max = o.sizes[len(o.sizes)-1]
	return nil
}

func (o *options) chooseLength(seconds float64) error {
	switch {
	case seconds < 0 || seconds > 1e6 || seconds != seconds:
		return fmt.Errorf("-D %g: want up to 1000000 seconds", seconds)
	case seconds > 0 && o.count != 0:
		return errors.New("-n and -D exclude each other")
	case seconds > 0:
		o.duration = time.Duration(seconds * float64(time.Second))
	case o.count < 0 || o.count > maxCount:
		return fmt.Errorf("-n %d: want a number from 1 to %d", o.count, maxCount)
	case o.count == 0 && o.Test == "write_bw":
		o.count = 5000
	case o.count == 0:
		o.count = 1000
	}
	return nil
}

// understand resolves the names in a plan.
func (p *plan) understand() error {
	var err error
	if p.kind, err = parseKind(p.Test); err != nil {
		return err
	}
	for _, t := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		if strings.EqualFold(p.Connection, t.String()) {
			p.connection = t
			return nil
		}
	}
	return fmt.Errorf("-c %s: want RC, UC or UD", p.Connection)
}

// check validates a plan from the command line or from a client.
func (p *plan) check() error {
	for _, n := range []struct {
		what          string
		value, lo, hi int64
	}{
		{"size", int64(p.Max), 1, maxSize},
		{"QPs", int64(p.QPs), 1, maxQPs},
		{"requests outstanding", int64(p.Depth), 1, maxDepth},
		{"requests for each doorbell", int64(p.List), 1, int64(p.Depth)},
		{"requests for each completion", int64(p.Moderation), 0, int64(p.Depth)},
		{"bytes of a packet", int64(p.MTU), 0, 4096},
		{"as timeout exponent", int64(p.Timeout), 0, 31},
		{"reads and atomics in flight", int64(p.RdAtomic), 0, 255},
		{"bytes inline", int64(p.Inline), 0, maxInline},
		{"bytes of all buffers", p.memory(), 0, maxMemory},
	} {
		if n.value < n.lo || n.value > n.hi {
			return fmt.Errorf("%d %s: want %d to %d", n.value, n.what, n.lo, n.hi)
		}
	}
	switch {
	case p.connection != verbs.RC && p.CM:
		return fmt.Errorf("-R supports connections of type RC, not %s", p.Connection)
	case p.connection == verbs.UC && p.kind.Op != "send" && p.kind.Op != "write", p.connection == verbs.UD && p.kind.Op != "send":
		return fmt.Errorf("connections of type %s do not support %s", p.Connection, p.kind.Op)
	case p.kind.Op == "atomic" && p.Max != atomicSize:
		return errAtomicSize
	case p.kind.Latency && p.QPs != 1:
		return errors.New("latency is measured on one QP")
	case p.CQESize != 0 && p.CQESize != 64 && p.CQESize != 128:
		return fmt.Errorf("completions of %d bytes: want 64 or 128", p.CQESize)
	case p.Events && p.Test == "write_lat":
		return errors.New("write_lat polls memory: it has no event to wait for")
	}
	return nil
}

// checkSize validates a size from a client by its plan.
func (p *plan) checkSize(size int) error {
	switch {
	case size < 1 || size > p.Max:
		return fmt.Errorf("size %d: want 1 to %d", size, p.Max)
	case p.kind.Op == "atomic" && size != atomicSize:
		return errAtomicSize
	}
	return nil
}

// head returns the number of bytes before a message in the receive buffer.
func (p *plan) head() int {
	if p.connection == verbs.UD {
		return verbs.GRHLen
	}
	return 0
}

// access returns the access rights of both sides' memory. As in perftest, they include relaxed
// ordering, without which PCIe is the bottleneck of some machines. Tests that poll memory for
// the end of a message exclude it, because the end may then arrive before the beginning.
func (p *plan) access() verbs.Access {
	if p.Strict || p.kind.echo && p.kind.Op == "write" {
		return p.kind.access
	}
	return p.kind.access | verbs.RelaxedOrdering
}

// stride returns the size of a QP's memory for each direction, in whole pages.
func (p *plan) stride() int { return (p.head() + p.Max + 4095) &^ 4095 }

// memory returns the size of a side's buffer. For each QP it has the data to send, then the
// data to receive.
func (p *plan) memory() int64 { return 2 * int64(p.QPs) * int64(p.stride()) }

// outgoing and incoming return the offsets of a QP's parts of the buffer.
func (p *plan) outgoing(lane int) int { return 2 * lane * p.stride() }
func (p *plan) incoming(lane int) int { return p.outgoing(lane) + p.stride() }

// moderation returns the number of requests for each completion.
func (p *plan) moderation() int {
	if p.Moderation > 0 {
		return p.Moderation
	}
	return max(1, min(100, p.Depth/2))
}
