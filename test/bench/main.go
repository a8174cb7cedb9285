// SPDX-License-Identifier: Apache-2.0

// Bench measures this stack against rdma-core's, side by side: each figure is the
// ratio of two programs that ran one after the other on the same machine, over
// the same devices, again and again in alternation.
//
//	bench -rping PATH [-runs N] [-only NAME] [-conns N]
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

	"purerdma/internal/vmtest"
)

// bench is one comparison.
type bench struct {
	name string
	what string
	run  func(ctx context.Context, e *env) error
}

// env is what the comparisons share.
type env struct {
	rping string // ours
	runs  int
	conns int    // how many connections at once
	self  string // this program, for the children
	hosts []vmtest.Host
}

var benches = []bench{
	{"rping", "event-driven ping-pong, time per round, rping against rping", benchRping},
	{"stream", "RDMA WRITE of 64 KiB, polled, 128 outstanding, against ib_write_bw", benchStream},
	{"cmtime", "the steps of many connections, cmtime against cmtime", benchCmtime},
	{"accept", "64 connections at once to one listener, ucmatose against ucmatose", benchAccept},
	{"conns", "package cm's blocking calls, many connections", benchConns},
	{"idle", "CPU time of an idle server", benchIdle},
}

func main() {
	rping := flag.String("rping", "bin/rping", "our rping")
	runs := flag.Int("runs", 10, "pairs of runs of each comparison")
	only := flag.String("only", "", "run this comparison alone")
	conns := flag.Int("conns", 1000, "connections of cmtime and conns")
	end := flag.String("end", "", "internal: run one end of conns")
	stream := flag.String("stream", "", "internal: run one end of the stream")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := moreFiles()
	switch {
	case err != nil:
	case *stream != "":
		err = streamEnd(ctx, *stream, flag.Args())
	case *end != "":
		err = connsEnd(ctx, *end, *conns, flag.Args())
	default:
		err = run(ctx, &env{rping: *rping, runs: *runs, conns: *conns}, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// program returns the path of one of our programs.
func (e *env) program(name string) string { return filepath.Join(filepath.Dir(e.rping), name) }

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
	for _, b := range benches {
		if only != "" && b.name != only {
			continue
		}
		fmt.Printf("%s: %s\n", b.name, b.what)
		if err := b.run(ctx, e); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	return nil
}
