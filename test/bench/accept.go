// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"time"
)

// dialers is the number of simultaneous connections.
const dialers = 64

// starts bounds the connection attempts to a server that does not listen yet.
const starts = 5

// ucmatose's client prints these lines when it starts to connect, when all its connections are
// established, and when all are disconnected.
const (
	acceptBegins      = "cmatose: connecting"
	acceptEstablished = "receiving data transfers"
	acceptEnds        = "test complete"
)

// burst has the times of one run of ucmatose. They run from the client's start of connecting until all
// connections are established, and until all are disconnected after a message in both directions. They do
// not include the start of the programs. It takes longer than connecting, varies from run to run, and
// depends on the loader and the file system.
type burst struct{ established, ended time.Duration }

// acceptor is a server and a client, with the times of their bursts in microseconds.
type acceptor struct {
	server, client string
	one, all       struct{ established, ended []float64 } // 1 connection and 64 connections
}

// benchAccept compares the time of listeners for 64 simultaneous connections. It subtracts the median of
// ucmatose -c 1 from the time of ucmatose -c 64, because each process does some work once, such as
// opening the device. Each program runs against itself, and each client against both servers, so that only
// the listener differs.
func benchAccept(ctx context.Context, e *env) error {
	c, goes := "ucmatose", e.program("ucmatose")
	pairings := []*acceptor{{server: c, client: c}, {server: goes, client: goes}, {server: goes, client: c}, {server: c, client: goes}}
	port := 7200
	for run := range e.runs + 1 {
		for _, a := range pairings {
			for _, conns := range []int{1, dialers} {
				port++
				b, err := ucmatose(ctx, e, a, port, conns)
				if err != nil {
					return err
				}
				if run == 0 {
					continue // this run also resolves neighbours and loads the programs
				}
				took := &a.all
				if conns == 1 {
					took = &a.one
				}
				took.established = append(took.established, float64(b.established.Microseconds()))
				took.ended = append(took.ended, float64(b.ended.Microseconds()))
			}
		}
	}
	itself, ourServer, ourClient := pairings[1], pairings[2], pairings[3]
	for _, cmp := range []struct {
		name    string
		c, goes *acceptor
	}{
		{"each program against itself", pairings[0], itself},
		{"rdma-core's client against both servers", pairings[0], ourServer},
		{"purerdma's client against both servers", ourClient, itself},
	} {
		var established, ended pairs
		for k := range e.runs {
			each := func(all, one []float64) float64 { return (all[k] - median(one)) / (dialers - 1) }
			established.add(each(cmp.c.all.established, cmp.c.one.established), each(cmp.goes.all.established, cmp.goes.one.established))
			ended.add(each(cmp.c.all.ended, cmp.c.one.ended), each(cmp.goes.all.ended, cmp.goes.one.ended))
		}
		fmt.Printf(" %s:\n  established  ", cmp.name)
		established.print("us/connection")
		fmt.Printf("  disconnected ")
		ended.print("us/connection")
	}
	return nil
}

// ucmatose runs a server and a client.
func ucmatose(ctx context.Context, e *env, a *acceptor, port, conns int) (burst, error) {
	args := []string{"-p", strconv.Itoa(port), "-c", strconv.Itoa(conns), "-C", "1"}
	server := exec.CommandContext(ctx, a.server, append([]string{"-b", e.hosts[0].IPv4.String()}, args...)...)
	if err := server.Start(); err != nil {
		return burst{}, err
	}
	defer func() { server.Process.Kill(); server.Wait() }()
	for try := 1; ; try++ {
		time.Sleep(2 * startTime)
		b, out, err := dialBurst(ctx, a.client, append([]string{"-s", e.hosts[0].IPv4.String(), "-b", e.hosts[1].IPv4.String()}, args...))
		if err == nil {
			return b, nil
		}
		// A rejection without a listener means that the server starts slowly.
		if try == starts || !bytes.Contains(out, []byte("RDMA_CM_EVENT_REJECTED, error: 8\n")) {
			return burst{}, fmt.Errorf("%s: %w: %s", a.client, err, lastLines(out))
		}
	}
}

// dialBurst runs a client and records the time of each line of its output. out is the whole output.
func dialBurst(ctx context.Context, program string, args []string) (b burst, out []byte, err error) {
	// Without stdbuf the C program would print its output only at its end.
	client := exec.CommandContext(ctx, "stdbuf", append([]string{"-oL", program}, args...)...)
	stdout, err := client.StdoutPipe()
	if err != nil {
		return b, nil, err
	}
	var stderr bytes.Buffer
	client.Stderr = &stderr
	if err := client.Start(); err != nil {
		return b, nil, err
	}
	at := map[string]time.Time{}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		at[lines.Text()] = time.Now()
		out = append(append(out, lines.Bytes()...), '\n')
	}
	err = client.Wait()
	out = append(out, stderr.Bytes()...)
	if err != nil {
		return b, out, err
	}
	for _, line := range []string{acceptBegins, acceptEstablished, acceptEnds} {
		if at[line].IsZero() {
			return b, out, fmt.Errorf("the output has no line %q", line)
		}
	}
	return burst{at[acceptEstablished].Sub(at[acceptBegins]), at[acceptEnds].Sub(at[acceptBegins])}, out, nil
}
