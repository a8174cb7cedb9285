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

	"purerdma/verbs"
)

// Limits of the command line, and of what a server does for a client.
const (
	maxSize   = 1 << 30 // bytes of a message
	maxQPs    = 1 << 12
	maxDepth  = 1 << 15
	maxInline = 1 << 12
	maxMemory = 1<<31 - 1 // bytes of all buffers of one side
	maxCount  = 1 << 30

	defaultPort = 18515 // perftest's
	atomicSize  = 8
	allSizes    = 23 // -a goes to 2^23 bytes
)

// options are what the command line says.
type options struct {
	plan
	server   string      // address or name; "" is the server itself
	source   string      // -B
	port     int         // -p
	host     *verbs.Host // where devices are, without -R
	device   string      // -d
	ibPort   int         // -i
	gid      int         // -x; -1: choose one
	sizes    []int
	count    int           // -n, on each QP
	duration time.Duration // -D, in place of count
	json     bool
}

// plan is what both sides of a test must know.
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
	Moderation int  `json:"moderation"` // -Q; 0: choose
	Inline     int  `json:"inline"`     // -I
	Events     bool `json:"events"`     // -e
	Verify     bool `json:"verify"`
	MTU        int  `json:"mtu"`       // -m, bytes; 0: that of the ports
	RdAtomic   int  `json:"rd_atomic"` // -o; 0: choose
	Timeout    int  `json:"timeout"`   // -u
	Strict     bool `json:"disable_pcie_relaxed"`
}

// parse reads the command line. Usage goes to w.
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
	seconds := f.Float64("D", 0, "`seconds` to run for, in place of -n")
	f.IntVar(&o.QPs, "q", 1, "`QPs` (bandwidth)")
	f.IntVar(&o.Depth, "t", 128, "`requests` outstanding on each QP (bandwidth)")
	f.IntVar(&o.List, "l", 1, "`requests` that are posted with one doorbell (bandwidth)")
	inline := -1
	f.Func("I", "`bytes` up to which a message is copied into its request (0, latency of send and write 64)", number(&inline))
	f.IntVar(&o.Moderation, "Q", 0, "`requests` that one completion stands for (bandwidth; half of -t, at most 100)")
	f.StringVar(&o.Connection, "c", "RC", "`type` of the connection: RC, UC or UD")
	f.BoolVar(&o.Events, "e", false, "sleep until the completion event, instead of polling")
	f.BoolVar(&o.Verify, "verify", false, "look at the data that came")
	f.BoolVar(&o.json, "json", false, "print one JSON object instead of the table")
	f.IntVar(&o.port, "p", defaultPort, "`port`, of the RDMA port space with -R")
	f.StringVar(&o.source, "B", "", "local `address`")
	f.BoolVar(&o.CM, "R", false, "connect by the connection manager, as both sides must say")
	f.StringVar(&o.device, "d", "", "`device` (that of -B, or the first one), without -R")
	f.IntVar(&o.ibPort, "i", 1, "`port` of the device, without -R")
	f.Func("x", "`index` of the GID (chosen by address and type), without -R", number(&o.gid))
	f.IntVar(&o.MTU, "m", 0, "`bytes` of a packet (those of the ports), without -R")
	f.IntVar(&o.RdAtomic, "o", 0, "reads and atomics in `flight` on a QP (16), without -R")
	f.IntVar(&o.Timeout, "u", 14, "`n`: a request is repeated after 4 microseconds * 2^n, without -R")
	f.BoolVar(&o.Strict, "disable_pcie_relaxed", false, "register memory without PCIe relaxed ordering (always so for write_lat, as perftest)")
	f.Bool("F", false, "accepted, as perftest's: the processor's frequency does not matter")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 1 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(1))
	}
	if o.server = f.Arg(0); o.port < 0 || o.port > 65535 {
		return nil, fmt.Errorf("-p %d: it takes a number from 0 to 65535", o.port)
	}
	if o.ibPort < 1 || o.ibPort > 255 || o.gid < -1 || o.gid > 255 {
		return nil, fmt.Errorf("-i %d -x %d: they take numbers from 1 and 0 to 255", o.ibPort, o.gid)
	}
	if o.server == "" {
		if name != "" {
			_, err := parseKind(name)
			return o, err // the client says what the server does
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
		// As perftest does it: what follows starts when the completion has come. A driver
		// may send what has none in another way, as siw does.
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

// number reads the number of a flag whose default is no number: one that package flag
// is not to print.
func number(to *int) func(string) error {
	return func(s string) error {
		n, err := strconv.ParseInt(s, 0, strconv.IntSize)
		if err != nil {
			return errors.New("parse error") // as package flag has it of its own
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
		return fmt.Errorf("-D %g: it takes seconds up to 1000000", seconds)
	case seconds > 0 && o.count != 0:
		return errors.New("-n and -D exclude each other")
	case seconds > 0:
		o.duration = time.Duration(seconds * float64(time.Second))
	case o.count < 0 || o.count > maxCount:
		return fmt.Errorf("-n %d: it takes a number from 1 to %d", o.count, maxCount)
	case o.count == 0 && o.Test == "write_bw":
		o.count = 5000
	case o.count == 0:
		o.count = 1000
	}
	return nil
}

// understand finds what the names in a plan mean.
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
	return fmt.Errorf("-c %s: there are RC, UC and UD", p.Connection)
}

// check judges a plan, the user's or one that came from a client.
func (p *plan) check() error {
	for _, n := range []struct {
		what          string
		value, lo, hi int64
	}{
		{"size", int64(p.Max), 1, maxSize},
		{"QPs", int64(p.QPs), 1, maxQPs},
		{"requests outstanding", int64(p.Depth), 1, maxDepth},
		{"requests of one post", int64(p.List), 1, int64(p.Depth)},
		{"requests of one completion", int64(p.Moderation), 0, int64(p.Depth)},
		{"bytes of a packet", int64(p.MTU), 0, 4096},
		{"as the exponent of the timeout", int64(p.Timeout), 0, 31},
		{"reads and atomics in flight", int64(p.RdAtomic), 0, 255},
		{"bytes inline", int64(p.Inline), 0, maxInline},
		{"bytes of all buffers", p.memory(), 0, maxMemory},
	} {
		if n.value < n.lo || n.value > n.hi {
			return fmt.Errorf("%d %s: it must be from %d to %d", n.value, n.what, n.lo, n.hi)
		}
	}
	switch {
	case p.connection != verbs.RC && p.CM:
		return fmt.Errorf("-R makes connections of type RC, not %s", p.Connection)
	case p.connection == verbs.UC && p.kind.Op != "send" && p.kind.Op != "write", p.connection == verbs.UD && p.kind.Op != "send":
		return fmt.Errorf("connections of type %s have no %s", p.Connection, p.kind.Op)
	case p.kind.Op == "atomic" && p.Max != atomicSize:
		return errAtomicSize
	case p.kind.Latency && p.QPs != 1:
		return errors.New("latency is measured on one QP")
	case p.Events && p.Test == "write_lat":
		return errors.New("write_lat looks at memory: there is no event to wait for")
	}
	return nil
}

// checkSize judges a size that a client wants to have measured by its plan.
func (p *plan) checkSize(size int) error {
	switch {
	case size < 1 || size > p.Max:
		return fmt.Errorf("%d bytes in memory for %d", size, p.Max)
	case p.kind.Op == "atomic" && size != atomicSize:
		return errAtomicSize
	}
	return nil
}

// head is what precedes a message where it is received.
func (p *plan) head() int {
	if p.connection == verbs.UD {
		return verbs.GRHLen
	}
	return 0
}

// access is what the memory of both sides is registered with. As perftest, it has relaxed
// ordering, without which PCIe is the bottleneck of some machines; but not where a program
// looks at memory for the end of a message, which may then come before its beginning.
func (p *plan) access() verbs.Access {
	if p.Strict || p.kind.echo && p.kind.Op == "write" {
		return p.kind.access
	}
	return p.kind.access | verbs.RelaxedOrdering
}

// stride is how much memory a QP has for each direction: whole pages.
func (p *plan) stride() int { return (p.head() + p.Max + 4095) &^ 4095 }

// memory is the size of a side's buffer: of each QP what it sends, and then what
// comes in.
func (p *plan) memory() int64 { return 2 * int64(p.QPs) * int64(p.stride()) }

// outgoing and incoming are where in the buffer a QP has its own.
func (p *plan) outgoing(lane int) int { return 2 * lane * p.stride() }
func (p *plan) incoming(lane int) int { return p.outgoing(lane) + p.stride() }

// moderation is how many requests one completion stands for.
func (p *plan) moderation() int {
	if p.Moderation > 0 {
		return p.Moderation
	}
	return max(1, min(100, p.Depth/2))
}
