// SPDX-License-Identifier: Apache-2.0

// Bench compares this stack with rdma-core's. Each figure is the ratio of two programs, which run in turn many
// times, on one machine and with the same devices.
//
//	bench -rping PATH [-runs N] [-only NAME] [-conns N] [-full] [-cells PATTERN] [-client-cpu N]
//
// The other programs of this module are in the directory of rping.
//
// It runs inside the micro-VM of rdmavm -hosts 2, with rdma-core's programs in
// PATH (make bench does all that), or on a host with RDMA devices and
// RDMAVM_HOSTS set. Ratios are ratios of times, so that Go is faster below 1.
// The interval is a 95 % bootstrap interval of the median of the paired ratios.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"purerdma/internal/vmtest"
)

// bench is one comparison.
type bench struct {
	name string
	what string
	run  func(ctx context.Context, e *env) error
	more bool // runs only with -only or -full
}

// env has the common parameters of the comparisons.
type env struct {
	rping string // the path of this module's rping
	runs  int
	conns int    // number of connections
	full  bool   // run the whole matrix of perf
	cells string // pattern of perf cells
	cpu   int    // processor of perf clients, or -1
	self  string // path of this program
	dir   string // directory of the copies
	hosts []vmtest.Host
}

var benches = []bench{
	{"rping", "event-driven ping-pong, time per round, rping against rping", benchRping, false},
	{"perf", "data paths, rdmaperf against perftest", benchPerf, false},
	{"scheduler", "cost of Go's runtime, rdmaperf against itself", benchScheduler, true},
	{"wake", "wake-up of a waiter on a completion channel, against ibv_get_cq_event", benchWake, true},
	{"register", "registration of 1 GiB, against ibv_reg_mr", benchRegister, true},
	{"operations", "operations of a Conn by many goroutines, against rdmaperf and perftest", benchOperations, true},
	{"poller", "round trips on many connections, with one poller for all against a CQ for each", benchPoller, true},
	{"msg", "calls and lent memory of package msg, against rdmaperf", benchMessages, true},
	{"stream", "streams, HTTP and gRPC, against rdmaperf, rdma-core's rstream and TCP", benchStream, true},
	{"cmtime", "the steps of many connections, cmtime against cmtime", benchCmtime, false},
	{"accept", "64 connections at once to one listener, ucmatose against ucmatose", benchAccept, false},
	{"conns", "package cm's blocking calls, many connections", benchConns, false},
	{"idle", "CPU time of an idle server", benchIdle, false},
}

func main() {
	rping := flag.String("rping", "bin/rping", "this module's rping")
	runs := flag.Int("runs", 10, "pairs of runs of each comparison")
	only := flag.String("only", "", "run only these `comparisons`, separated by commas")
	conns := flag.Int("conns", 1000, "connections of cmtime and conns")
	full := flag.Bool("full", false, "all comparisons, and the whole matrix of perf instead of a few cells (hours)")
	cells := flag.String("cells", "", "only the cells of perf, operations, msg, stream or cmtime whose name matches this `pattern`, such as send_bw/4096/8qp/polled")
	cpu := flag.Int("client-cpu", -1, "keep the clients of perf on this `processor`")
	end := flag.String("end", "", "internal: run one end of conns")
	register := flag.String("register", "", "internal: register memory")
	operate := flag.String("operate", "", "internal: run one end of operations")
	echo := flag.String("echo", "", "internal: run one end of poller")
	message := flag.String("message", "", "internal: run one end of msg")
	exchange := flag.String("exchange", "", "internal: run one end of stream")
	wake := flag.Bool("wake", false, "internal: wait for completions")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := raiseLimits()
	switch {
	case err != nil:
	case *end != "":
		err = connsEnd(ctx, *end, *conns, flag.Args())
	case *register != "":
		err = registerHere(*register, flag.Args())
	case *operate != "":
		err = operateHere(ctx, *operate, flag.Args(), os.Stdout)
	case *echo != "":
		err = echoHere(ctx, *echo, flag.Args(), os.Stdout)
	case *message != "":
		err = messageHere(ctx, *message, flag.Args(), os.Stdout)
	case *exchange != "":
		err = exchangeHere(ctx, *exchange, flag.Args(), os.Stdout)
	case *wake:
		err = waitHere(ctx, flag.Args())
	default:
		err = run(ctx, &env{rping: *rping, runs: *runs, conns: *conns, full: *full, cells: *cells, cpu: *cpu}, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// ours lists the measured programs of this module.
var ours = []string{"rping", "cmtime", "rdmaperf", "ucmatose", "rstream"}

// program returns the path of the copy of a measured program.
func (e *env) program(name string) string { return filepath.Join(e.dir, name) }

// copyPrograms copies the measured programs.
func (e *env) copyPrograms() error {
	for _, name := range ours {
		if err := e.copyProgram(name); err != nil {
			return err
		}
	}
	return nil
}

// copyProgram copies a measured program to a directory for temporary files. In the virtual machine this directory is in
// memory, as the C programs are after their first run. The build directory is in a file system that caches nothing of
// a program that does not run. It would load each page at its first access, during the measurement.
func (e *env) copyProgram(name string) error {
	b, err := os.ReadFile(filepath.Join(filepath.Dir(e.rping), name))
	if err != nil {
		return err
	}
	return os.WriteFile(e.program(name), b, 0o755)
}

func run(ctx context.Context, e *env, only string) error {
	var err error
	if e.self, err = os.Executable(); err != nil {
		return err
	}
	if e.hosts, err = vmtest.Ends(); err != nil {
		return err
	}
	if len(e.hosts) < 2 {
		return fmt.Errorf("two hosts are needed (rdmavm -hosts 2)")
	}
	if e.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return err
	}
	defer os.RemoveAll(e.dir)
	if err := e.copyPrograms(); err != nil {
		return err
	}
	for _, b := range benches {
		if only == "" && b.more && !e.full || only != "" && !slices.Contains(strings.Split(only, ","), b.name) {
			continue
		}
		fmt.Printf("%s: %s\n", b.name, b.what)
		if err := b.run(ctx, e); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return nil
}
