// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"purerdma/cm"
	"purerdma/inflight"
	"purerdma/verbs"
)

// goalPoller is the goal for the ratio of times: 1.3 times the rate with a poller for all connections.
const goalPoller = 1 / 1.3

// Numbers of the comparison with a shared poller.
const (
	pollerConns    = 64
	pollerIdle     = 1000
	pollerMessages = 64  // of each connection in a run
	pollerSize     = 64  // bytes of a message
	pollerDepth    = 512 // receives that connections share, at most one message of each is under way
)

// echoes is one of the two ends of connections that echo messages. Each connection has one message under way, and a
// goroutine that waits for it on each side.
type echoes struct {
	host   *verbs.Host // nil means verbs.DefaultHost
	shared bool        // one cm.Shared for all connections, or else CQs, receives and a PD for each
	conns  int
}

var errEchoUsage = errors.New("usage: -echo server own|shared CONNS ADDRESS, -echo client own|shared CONNS ADDRESS COUNT SERVER")

// echoHere is one of the two processes.
func echoHere(ctx context.Context, role string, args []string, w io.Writer) error {
	if role == "server" && len(args) != 3 || role == "client" && len(args) != 5 || role != "server" && role != "client" ||
		args[0] != "own" && args[0] != "shared" {
		return errEchoUsage
	}
	conns, err := strconv.Atoi(args[1])
	if err != nil || conns < 1 {
		return errEchoUsage
	}
	e := &echoes{shared: args[0] == "shared", conns: conns}
	if role == "server" {
		return e.serve(ctx, net.JoinHostPort(args[2], "0"), w)
	}
	count, err := strconv.Atoi(args[3])
	if err != nil || count < 0 {
		return errEchoUsage
	}
	return e.measure(ctx, net.JoinHostPort(args[2], "0"), args[4], count, w)
}

// receive returns the configuration of the receives: a Shared, or receives of each connection.
func (e *echoes) receive() (*cm.Shared, *inflight.ReceiveConfig) {
	if e.shared {
		return cm.NewShared(cm.SharedConfig{Receive: inflight.ReceiveConfig{Size: pollerSize, Depth: pollerDepth, MaxHeld: 4}}), nil
	}
	return nil, &inflight.ReceiveConfig{Size: pollerSize, Depth: 4}
}

// serve prints its address, and echoes until all connections have ended.
func (e *echoes) serve(ctx context.Context, addr string, w io.Writer) error {
	shared, own := e.receive()
	if shared != nil {
		defer shared.Close()
	}
	cfg := cm.ListenConfig{Host: e.host, MaxConns: -1, MaxConnsPerAddr: -1, MaxPending: -1, MaxPendingPerAddr: -1,
		Shared: shared, Receive: own, QP: verbs.QPConfig{Cap: verbs.QPCap{SendWR: 8, RecvWR: 8}}}
	ln, err := cfg.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	if _, err := fmt.Fprintln(w, ln.Addr()); err != nil {
		return err
	}
	all, err := many(e.conns, func() (*cm.Conn, error) {
		req, err := ln.Accept(ctx)
		if err != nil {
			return nil, err
		}
		defer req.Close()
		return req.Accept(ctx, nil, nil)
	})
	defer closeAll(all)
	if err != nil {
		return err
	}
	return each(all, func(conn *cm.Conn) error {
		for {
			m, err := conn.Receive(ctx)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			err = conn.Send(ctx, m.SGE())
			m.Free()
			if err != nil {
				return err
			}
		}
	})
}

// measure connects, and prints the microseconds of a round trip, of all connections together, and the goroutines and
// threads beyond one goroutine for each connection's events.
func (e *echoes) measure(ctx context.Context, from, server string, count int, w io.Writer) error {
	src, err := cm.ParseAddr(from)
	if err != nil {
		return err
	}
	shared, own := e.receive()
	if shared != nil {
		defer shared.Close()
	}
	d := cm.Dialer{Host: e.host, LocalAddr: src, Shared: shared, Receive: own, QP: verbs.QPConfig{Cap: verbs.QPCap{SendWR: 8, RecvWR: 8}}}
	before := runtime.NumGoroutine()
	all, err := many(e.conns, func() (*cm.Conn, error) { return d.Dial(ctx, "tcp", server) })
	defer closeAll(all)
	if err != nil {
		return err
	}
	goroutines := runtime.NumGoroutine() - before
	round := func(count int) error {
		return each(all, func(conn *cm.Conn) error { return e.echo(ctx, conn, count) })
	}
	if err := round(min(1, count)); err != nil {
		return err
	}
	start := time.Now()
	if err := round(count); err != nil {
		return err
	}
	us := float64(time.Since(start).Nanoseconds()) / 1e3 / float64(max(1, count*len(all)))
	_, err = fmt.Fprintln(w, us, goroutines, threads())
	return err
}

// echo sends a number of messages, each after the echo of the one before.
func (e *echoes) echo(ctx context.Context, conn *cm.Conn, count int) error {
	if count == 0 {
		return nil
	}
	b, err := conn.Pool().Get(ctx, pollerSize)
	if err != nil {
		return err
	}
	defer b.Free()
	for i := range count {
		b.Bytes()[0] = byte(i)
		if err := conn.Send(ctx, b.SGE()); err != nil {
			return err
		}
		m, err := conn.Receive(ctx)
		if err != nil {
			return err
		}
		got := m.Bytes()
		ok := len(got) == pollerSize && got[0] == byte(i)
		m.Free()
		if !ok {
			return fmt.Errorf("echo %d differs from its message", i)
		}
	}
	return nil
}

// each calls a function for each connection at once.
func each(conns []*cm.Conn, fn func(*cm.Conn) error) error {
	errs := make([]error, len(conns))
	var all sync.WaitGroup
	for i, conn := range conns {
		all.Go(func() { errs[i] = fn(conn) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// An echoRun has the results of a client.
type echoRun struct {
	us                  float64
	goroutines, threads int
}

// benchPoller compares a poller for all connections with a CQ and a waiting goroutine for each.
func benchPoller(ctx context.Context, e *env) error {
	var times pairs
	for range e.runs {
		own, err := e.echoes(ctx, "own", pollerConns, pollerMessages)
		if err != nil {
			return err
		}
		shared, err := e.echoes(ctx, "shared", pollerConns, pollerMessages)
		if err != nil {
			return err
		}
		times.add(own.us, shared.us)
	}
	fmt.Printf(" %d connections, round trips of %d B (goal %.3g)\n ", pollerConns, pollerSize, goalPoller)
	times.printAs("own CQs", "shared", "us/round trip")
	for _, mode := range []string{"own", "shared"} {
		r, err := e.echoes(ctx, mode, pollerIdle, 0)
		if err != nil {
			return err
		}
		fmt.Printf(" %d idle connections, %s: %d goroutines, %d threads\n", pollerIdle, mode, r.goroutines, r.threads)
	}
	return nil
}

// echoes runs both ends once.
func (e *env) echoes(ctx context.Context, mode string, conns, count int) (echoRun, error) {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	server := exec.CommandContext(ctx, e.self, "-echo", "server", mode, strconv.Itoa(conns), e.hosts[0].IPv4.String())
	server.Stderr = os.Stderr
	output, err := server.StdoutPipe()
	if err != nil {
		return echoRun{}, err
	}
	if err := server.Start(); err != nil {
		return echoRun{}, err
	}
	defer func() { server.Process.Kill(); server.Wait() }()
	addr, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return echoRun{}, fmt.Errorf("the server: %w", err)
	}
	out, err := e.client(ctx, e.self, "-echo", "client", mode, strconv.Itoa(conns), e.hosts[1].IPv4.String(),
		strconv.Itoa(count), strings.TrimSpace(addr)).Output()
	if err != nil {
		if ee, ok := err.(*exec.ExitError); ok {
			err = fmt.Errorf("%w: %s", err, lastLines(ee.Stderr))
		}
		return echoRun{}, fmt.Errorf("the client: %w", err)
	}
	var r echoRun
	if _, err := fmt.Sscan(string(out), &r.us, &r.goroutines, &r.threads); err != nil {
		return echoRun{}, fmt.Errorf("the client printed %q: %w", out, err)
	}
	return r, nil
}
