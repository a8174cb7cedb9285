// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"purerdma/verbs"
)

const (
	registerSize   = 1 << 30
	registerRounds = 3
	hugePage       = 2 << 20
)

// benchRegister compares the times of registration and deregistration of memory whose pages exist, with
// ordinary and with huge pages. No program of rdma-core or perftest measures them, so the C side is
// testdata/register.c.
func benchRegister(ctx context.Context, e *env) error {
	dir, err := os.MkdirTemp("", "register")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	theirs, err := compile(ctx, dir, "register", "-libverbs")
	if err != nil {
		fmt.Printf("  left out: %v\n", err)
		return nil
	}
	for _, kind := range []string{"small", "huge"} {
		if kind == "huge" {
			if err := setHugePages(registerSize / hugePage); err != nil {
				fmt.Printf("  huge pages left out: %v\n", err)
				continue
			}
			defer setHugePages(0)
		}
		var begin, end pairs
		for range e.runs {
			c, err := registerRun(ctx, theirs, e.hosts[0].Device, strconv.Itoa(registerSize), strconv.Itoa(registerRounds), kind)
			if err != nil {
				return err
			}
			goes, err := registerRun(ctx, e.self, "-register", e.hosts[0].Device, kind)
			if err != nil {
				return err
			}
			begin.add(c[0], goes[0])
			end.add(c[1], goes[1])
		}
		fmt.Printf(" %-32s", kind+" pages, register")
		begin.print("us")
		fmt.Printf(" %-32s", kind+" pages, deregister")
		end.print("us")
	}
	return nil
}

// setHugePages reserves n huge pages.
func setHugePages(n int) error {
	const file = "/proc/sys/vm/nr_hugepages"
	if err := os.WriteFile(file, []byte(strconv.Itoa(n)), 0); err != nil {
		return err
	}
	b, err := os.ReadFile(file)
	if have := strings.TrimSpace(string(b)); err == nil && have != strconv.Itoa(n) {
		err = fmt.Errorf("only %s of %d huge pages are available (rdmavm -memory)", have, n)
	}
	return err
}

// registerRun runs a program that registers memory, and returns the medians of both times.
func registerRun(ctx context.Context, program string, args ...string) (us [2]float64, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return us, fmt.Errorf("%s: %w", program, err)
	}
	var all [2][]float64
	lines := bufio.NewScanner(strings.NewReader(string(out)))
	for lines.Scan() {
		var begin, end float64
		if _, err := fmt.Sscan(lines.Text(), &begin, &end); err != nil {
			return us, fmt.Errorf("%s printed %q: %w", program, lines.Text(), err)
		}
		all[0], all[1] = append(all[0], begin), append(all[1], end)
	}
	return [2]float64{median(all[0]), median(all[1])}, nil
}

// registerHere is the Go side, with the steps of testdata/register.c.
func registerHere(device string, args []string) error {
	dev, err := verbs.DefaultHost().Open(device)
	if err != nil {
		return err
	}
	defer dev.Close()
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	defer pd.Close()
	b, err := mapPages(registerSize, len(args) > 0 && args[0] == "huge")
	if err != nil {
		return err
	}
	for i := range b {
		b[i] = 1
	}
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	for range registerRounds {
		start := time.Now()
		mr, err := pd.RegMR(b, verbs.LocalWrite|verbs.RemoteWrite)
		there := time.Now()
		if err != nil {
			return err
		}
		if err := mr.Close(); err != nil {
			return err
		}
		fmt.Printf("%.1f %.1f\n", us(there.Sub(start)), us(time.Since(there)))
	}
	return nil
}
