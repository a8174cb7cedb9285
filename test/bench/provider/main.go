// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

// Provider compares the cost of posting and polling of a provider with its C library, in one run on one processor. It
// measures libmlx5's two interfaces, called from C and through cgo, and package provider/mlx5. All use fake devices,
// which are memory. It also compares polling of short receives on one processor and on two, and operations of a
// cm.Conn with PostSend and Poll. For erdma and bnxt_re it measures only posting and polling.
//
//	go run ./test/bench/provider                   nanoseconds and instructions, as tables
//	go run ./test/bench/provider -callgrind=false  without valgrind
//	go run ./test/bench/provider -only receive     short receives only
//	go run ./test/bench/provider -only conn        operations of a Conn only
//	go run ./test/bench/provider -driver erdma     posting and polling of provider/erdma and liberdma
//	go run ./test/bench/provider -driver bnxt_re   posting and polling of provider/bnxt_re and libbnxt_re
//
// It needs gcc and taskset, and valgrind for counting instructions. The machine's apt downloads rdma-core into
// the user's cache directory, as for test/oracle.
// docs/explanation/performance.md explains the figures.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

type options struct {
	driver    string
	release   string
	cpu       int
	rounds    int
	repeat    int
	callgrind bool
	only      string
}

func main() {
	var o options
	flag.StringVar(&o.driver, "driver", "mlx5", "whose provider: mlx5, or erdma or bnxt_re, of which only posting and polling is measured")
	flag.StringVar(&o.release, "release", "", "which release of Debian rdma-core is from: bookworm or sid (default bookworm, for bnxt_re sid)")
	flag.IntVar(&o.cpu, "cpu", runtime.NumCPU()-1, "the processor that everything runs on")
	flag.IntVar(&o.rounds, "rounds", 1500, "rounds of 512 requests, of which the median counts")
	flag.IntVar(&o.repeat, "repeat", 3, "how often all is run, one after the other; the lowest median counts")
	flag.BoolVar(&o.callgrind, "callgrind", true, "count instructions, too")
	flag.StringVar(&o.only, "only", "", "measure only \"post\", requests and their completions, \"receive\", short receives, or \"conn\", operations of a Conn")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "bench/provider:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if flag.NArg() > 0 || o.rounds < 1 || o.repeat < 1 || !slices.Contains([]string{"", "post", "receive", "conn"}, o.only) {
		return errors.New("unknown arguments, or no rounds")
	}
	if o.driver != "mlx5" {
		other, ok := others[o.driver]
		if !ok || o.only != "" && o.only != "post" {
			return fmt.Errorf("unknown driver %q, or nothing to measure", o.driver)
		}
		o.only = "post"
		o.release = cmp.Or(o.release, other.release)
		subjects = other.subjects(o.driver)
	}
	o.release = cmp.Or(o.release, "bookworm")
	o.callgrind = o.callgrind && (o.only == "" || o.only == "post")
	tools := []string{"gcc", "taskset"}
	if o.callgrind {
		tools = append(tools, "valgrind")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w (apt-get install gcc util-linux valgrind)", err)
		}
	}
	dir, err := os.MkdirTemp("", "bench-provider")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := build(ctx, o, dir)
	if err != nil {
		return err
	}
	fmt.Printf("rdma-core %s, %s, %s\n", p.c.Version, runtime.Version(), processor())
	for _, part := range []struct {
		name   string
		report func(context.Context, options) error
	}{{"post", p.reportPosts}, {"receive", p.reportReceives}, {"conn", p.reportConn}} {
		if o.only == "" || o.only == part.name {
			if err := part.report(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// reportPosts measures and counts requests and their completions.
func (p *programs) reportPosts(ctx context.Context, o options) error {
	ns, err := p.measure(ctx, o)
	if err != nil {
		return err
	}
	fmt.Printf("\nNanoseconds:\n\n%s", ns.markdown("%.1f"))
	if !o.callgrind {
		return nil
	}
	ir, err := p.count(ctx, o)
	if err != nil {
		return err
	}
	fmt.Printf("\nInstructions:\n\n%s", ir.markdown("%.0f"))
	fmt.Printf("\nOurs to C's:\n\n%s", ratios(ns, ir))
	return nil
}

// processor returns the name of the processor.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "an unknown processor"
	}
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return "an unknown processor"
}
