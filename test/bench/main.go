// SPDX-License-Identifier: Apache-2.0

// Bench measures this stack against rdma-core's, side by side: each figure is the
// ratio of two programs that ran one after the other on the same machine, over
// the same devices, again and again in alternation.
//
//	bench -rping PATH [-runs N] [-only NAME] [-conns N] [-full] [-cells PATTERN] [-client-cpu N]
//
// Our other programs lie beside rping.
//
// It runs inside the micro-VM of rdmavm -hosts 2, with rdma-core's programs in
// PATH (make bench does all that), or on a host with RDMA devices and
// RDMAVM_HOSTS set. Ratios are time against time: below 1 means that Go is
// faster. The interval is a 95 % bootstrap interval of the median of the paired
// ratios.
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
	more bool // with -only or -full
}

// env is what the comparisons share.
type env struct {
	rping string // ours
	runs  int
	conns int    // how many connections at once
	full  bool   // the whole matrix of perf
	cells string // the cells of perf, a regular expression
	cpu   int    // the processor of perf's clients, -1 for any
	self  string // this program, for the children
	dir   string // of copies of our programs
	hosts []vmtest.Host
}

var benches = []bench{
	{"rping", "event-driven ping-pong, time per round, rping against rping", benchRping, false},
	{"perf", "data paths, rdmaperf against perftest", benchPerf, false},
	{"scheduler", "what Go's runtime costs, rdmaperf against itself", benchScheduler, true},
	{"wake", "how long a waiter on a completion channel takes, against ibv_get_cq_event", benchWake, true},
	{"register", "registration of 1 GiB, against ibv_reg_mr", benchRegister, true},
	{"cmtime", "the steps of many connections, cmtime against cmtime", benchCmtime, false},
	{"accept", "64 connections at once to one listener, ucmatose against ucmatose", benchAccept, false},
	{"conns", "package cm's blocking calls, many connections", benchConns, false},
	{"idle", "CPU time of an idle server", benchIdle, false},
}

func main() {
	rping := flag.String("rping", "bin/rping", "our rping")
	runs := flag.Int("runs", 10, "pairs of runs of each comparison")
	only := flag.String("only", "", "run these `comparisons` alone, separated by commas")
	conns := flag.Int("conns", 1000, "connections of cmtime and conns")
	full := flag.Bool("full", false, "all comparisons, and the whole matrix of perf, not a few cells: hours")
	cells := flag.String("cells", "", "only those cells of the matrix of perf whose name, as send_bw/4096/8qp/polled, matches this `pattern`")
	cpu := flag.Int("client-cpu", -1, "keep the clients of perf on this `processor`")
	end := flag.String("end", "", "internal: run one end of conns")
	register := flag.String("register", "", "internal: register memory")
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

// ours are the programs of this tree that are measured.
var ours = []string{"rping", "cmtime", "rdmaperf", "ucmatose"}

// program returns the path of a copy of one of ours.
func (e *env) program(name string) string { return filepath.Join(e.dir, name) }

// copyPrograms copies ours to a directory for temporary files. In the virtual machine
// that is memory, where they lie as the C programs do after they have run
// once. The tree they were built in is a file system that keeps nothing
// of a program that does not run, and hands each page out when it is first touched:
// in the midst of what is measured.
func (e *env) copyPrograms() error {
	for _, name := range ours {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(e.rping), name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(e.program(name), b, 0o755); err != nil {
			return err
		}
	}
	return nil
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
		return fmt.Errorf("two hosts are needed: rdmavm -hosts 2")
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
