// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
)

// pin returns the start of a command line that runs a program on one processor.
func pin(o options) []string { return []string{"taskset", "-c", strconv.Itoa(o.cpu)} }

// measure measures all subjects in turn several times, so that other work on the machine affects all alike. The
// lowest median counts.
func (p *programs) measure(ctx context.Context, o options) (*results, error) {
	best := newResults()
	for i := range o.repeat {
		fmt.Fprintf(os.Stderr, "bench/provider: measuring, %d of %d\n", i+1, o.repeat)
		for _, kind := range cases {
			for _, batch := range batches {
				for k := range subjects {
					s := &subjects[k]
					post, poll, err := p.run(ctx, s, kind, batch, o.rounds, pin(o)...)
					if err != nil {
						return nil, err
					}
					best.lower(s.name, kind, batch, post)
					best.lower(s.name, "poll", batch, poll)
				}
			}
		}
	}
	return best, nil
}

// callgrindRounds is the number of rounds under callgrind. It is low, because the counts do not vary.
const callgrindRounds = 20

var summary = regexp.MustCompile(`(?m)^(?:summary|totals): (\d+)`)

// count counts instructions with callgrind, which collects within one function.
func (p *programs) count(ctx context.Context, o options) (*results, error) {
	r := newResults()
	for k := range subjects {
		s := &subjects[k]
		fmt.Fprintf(os.Stderr, "bench/provider: counting instructions of %s\n", s.name)
		for _, batch := range batches {
			for _, kind := range append([]string{"poll"}, cases...) {
				run, f := kind, s.poll
				if kind == "poll" {
					run = "write"
				} else {
					f = s.post[kind]
				}
				n, err := p.callgrind(ctx, o, s, run, f, batch)
				if err != nil {
					return nil, err
				}
				r.lower(s.name, kind, batch, n)
			}
		}
	}
	return r, nil
}

// callgrind returns the number of instructions of one request within f.
func (p *programs) callgrind(ctx context.Context, o options, s *subject, kind, f string, batch int) (float64, error) {
	file := p.path("callgrind")
	_, _, err := p.run(ctx, s, kind, batch, callgrindRounds, append(pin(o),
		"valgrind", "-q", "--tool=callgrind", "--callgrind-out-file="+file, "--collect-atstart=no", "--toggle-collect="+f)...)
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	m := summary.FindSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("callgrind has counted nothing in %s of %s", f, s.name)
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("callgrind has counted %q in %s of %s: %w", m[1], f, s.name, err)
	}
	return n / (callgrindRounds * roundSize), nil
}
