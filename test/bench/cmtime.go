// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"purerdma/test/pairing"
)

// The steps that make a connection, with cmtime's names.
var connecting = []string{"create id", "bind addr", "resolve addr", "resolve route", "create qp", "connect"}

// The steps that end a connection.
var ending = []string{"disconnect", "destroy"}

// benchCmtime compares the steps of cmtime. Each program runs against itself, and each client against both
// servers.
func benchCmtime(ctx context.Context, e *env) error {
	pick, err := regexp.Compile(e.cells)
	if err != nil {
		return fmt.Errorf("-cells: %w", err)
	}
	ports := map[string]string{"rdma-core": "7180", "purerdma": "7181"}
	programs := map[string]string{"rdma-core": "cmtime", "purerdma": e.program("cmtime")}
	servers := map[string]*pairing.Process{}
	for who, port := range ports {
		server, err := pairing.Start(ctx, pairing.Program{Name: who, Path: programs[who]}, "-b", e.hosts[0].IPv4.String(), "-p", port)
		if err != nil {
			return err
		}
		defer func() { server.Signal(syscall.SIGKILL); server.Wait(killTime) }()
		servers[who] = server
	}
	time.Sleep(2 * startTime)
	run := func(client, server string) (map[string]float64, error) {
		steps, err := cmtime(ctx, e, programs[client], ports[server])
		if err != nil {
			s := servers[server]
			return nil, fmt.Errorf("%s's client at %s's server: %w\nserver (running: %t): %v", client, server, err, s.Alive(), s.Output())
		}
		return steps, nil
	}
	// The first clients also resolve neighbours.
	for who := range ports {
		if _, err := run(who, who); err != nil {
			return err
		}
	}
	type ends struct{ client, server string }
	for _, c := range []struct {
		name     string
		core, we ends
	}{
		{"each program against itself", ends{"rdma-core", "rdma-core"}, ends{"purerdma", "purerdma"}},
		{"rdma-core's client at both servers", ends{"rdma-core", "rdma-core"}, ends{"rdma-core", "purerdma"}},
		{"purerdma's client at both servers", ends{"purerdma", "rdma-core"}, ends{"purerdma", "purerdma"}},
	} {
		if !pick.MatchString(c.name) {
			continue
		}
		total := map[string]*pairs{}
		for range e.runs {
			a, err := run(c.core.client, c.core.server)
			if err != nil {
				return err
			}
			b, err := run(c.we.client, c.we.server)
			if err != nil {
				return err
			}
			for step := range a {
				if total[step] == nil {
					total[step] = new(pairs)
				}
				total[step].add(a[step], b[step])
			}
		}
		fmt.Printf(" %s, %d connections:\n", c.name, e.conns)
		for _, step := range append(append([]string{"connecting"}, connecting...), append([]string{"ending"}, ending...)...) {
			fmt.Printf(" %-14s", step)
			total[step].print("us/connection")
		}
		p := total["connecting"]
		fmt.Printf("  connections per second: rdma-core %.0f, purerdma %.0f\n", 1e6/median(p.c), 1e6/median(p.goes))
	}
	return nil
}

// killTime bounds the wait for the end of a killed server. The kernel first ends its connections.
const killTime = time.Minute

// cmtime runs a client and returns the microseconds per connection of each step, and the sums of the
// connecting and of the ending steps.
func cmtime(ctx context.Context, e *env, program, port string) (map[string]float64, error) {
	out, err := exec.CommandContext(ctx, program, "-s", e.hosts[0].IPv4.String(), "-b", e.hosts[1].IPv4.String(),
		"-p", port, "-c", strconv.Itoa(e.conns)).CombinedOutput()
	if err == nil {
		err = cmtimeFailures(string(out))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", program, err, lastLines(out))
	}
	return parseCmtime(string(out))
}

// cmtimeFailures returns an error if connections have failed. The C program then still ends with status 0. Its
// table has times of failed connections.
func cmtimeFailures(out string) error {
	failures, counts := []string{}, map[string]int{}
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "failure ") && !strings.Contains(line, ", error: ") {
			continue
		}
		if counts[line]++; counts[line] == 1 {
			failures = append(failures, line)
		}
	}
	for i, line := range failures {
		failures[i] = fmt.Sprintf("%q in %d lines", line, counts[line])
	}
	if len(failures) > 0 {
		return fmt.Errorf("connections failed: %s", strings.Join(failures, ", "))
	}
	return nil
}

// figure matches a column of the table. A value of 11 or more characters touches the value before it, but each
// value has two decimals.
var figure = regexp.MustCompile(`-?[0-9]+\.[0-9]{2}`)

// parseCmtime parses the table. Its last column has the microseconds per connection.
func parseCmtime(out string) (map[string]float64, error) {
	steps := map[string]float64{}
	for line := range strings.Lines(out) {
		name, figures, found := strings.Cut(line, ":")
		f := figure.FindAllString(figures, -1)
		if !found || len(f) != 4 {
			continue
		}
		us, err := strconv.ParseFloat(f[3], 64)
		if err != nil {
			return nil, fmt.Errorf("cmtime's row %q: %w", line, err)
		}
		steps[strings.TrimSpace(name)] = us
	}
	for sum, of := range map[string][]string{"connecting": connecting, "ending": ending} {
		us := 0.0
		for _, name := range of {
			v, ok := steps[name]
			if !ok {
				return nil, fmt.Errorf("cmtime printed no row %q: %s", name, out)
			}
			us += v
		}
		steps[sum] = us
	}
	return steps, nil
}
