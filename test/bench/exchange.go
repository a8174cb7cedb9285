// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"purerdma/cm"
	"purerdma/stream"
	"purerdma/verbs"
)

// exchange is a transfer between two processes of this program. In a round of kind "echo", the client sends count times
// size bytes to the server, and then receives as much. In a round of kind "http", each of count clients gets size bytes.
type exchange struct {
	kind                string
	size, count, rounds int
	network             string      // "stream", "polling" or "tcp"
	host                *verbs.Host // nil means verbs.DefaultHost
}

// exchangeKinds maps a kind to the function of its server, and the function of its client.
var exchangeKinds = map[string]struct {
	serve func(*exchange, net.Listener) error
	run   func(x *exchange, ctx context.Context, from, server string) (timesOf, error)
}{
	"echo": {(*exchange).echo, (*exchange).send},
	"http": {(*exchange).serveHTTP, (*exchange).get},
}

// timesOf has the results of a client, in microseconds. For "echo" both are times of one message. For "http" the mean is
// the whole time divided by the number of answers, and the median is the median time of an answer.
type timesOf struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
}

func (t timesOf) figures() (figures, error) {
	if !(t.Mean > 0 && t.P50 > 0) {
		return figures{}, fmt.Errorf("the client reported %+v", t)
	}
	return figures{message: t.P50, mean: t.Mean}, nil
}

var errExchangeUsage = errors.New("usage: -exchange server ADDRESS NETWORK KIND SIZE COUNT ROUNDS, -exchange client ADDRESS NETWORK KIND SIZE COUNT ROUNDS SERVER")

// args returns the arguments of a process.
func (x *exchange) args(role, address string) []string {
	return []string{"-exchange", role, address, x.network, x.kind, strconv.Itoa(x.size), strconv.Itoa(x.count), strconv.Itoa(x.rounds)}
}

// exchangeHere is one of the two processes.
func exchangeHere(ctx context.Context, role string, args []string, w io.Writer) error {
	if role == "server" && len(args) != 6 || role == "client" && len(args) != 7 || role != "server" && role != "client" {
		return errExchangeUsage
	}
	var numbers [3]int
	for i := range numbers {
		n, err := strconv.Atoi(args[3+i])
		if err != nil || n < 1 {
			return errExchangeUsage
		}
		numbers[i] = n
	}
	x := &exchange{network: args[1], kind: args[2], size: numbers[0], count: numbers[1], rounds: numbers[2]}
	kind, ok := exchangeKinds[x.kind]
	if !ok {
		return errExchangeUsage
	}
	address := net.JoinHostPort(args[0], "0")
	if role == "server" {
		ln, err := x.listen(ctx, address)
		if err != nil {
			return err
		}
		defer ln.Close()
		if _, err := fmt.Fprintln(w, ln.Addr()); err != nil {
			return err
		}
		return kind.serve(x, ln)
	}
	times, err := kind.run(x, ctx, address, args[6])
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(times)
}

// busyWait is the time that a waiting goroutine polls. It is longer than a round trip of an emulated processor.
const busyWait = 10 * time.Millisecond

// options returns the options of streams.
func (x *exchange) options() stream.Options {
	if x.network == "polling" {
		return stream.Options{Spin: busyWait}
	}
	return stream.Options{}
}

func (x *exchange) listen(ctx context.Context, address string) (net.Listener, error) {
	switch x.network {
	case "tcp":
		return new(net.ListenConfig).Listen(ctx, "tcp", address)
	case "stream", "polling":
		lc := stream.ListenConfig{Options: x.options(), CM: cm.ListenConfig{Host: x.host}}
		return lc.Listen(ctx, "tcp", address)
	}
	return nil, errExchangeUsage
}

func (x *exchange) dial(ctx context.Context, from, server string) (net.Conn, error) {
	switch x.network {
	case "tcp":
		local, err := net.ResolveTCPAddr("tcp", from)
		if err != nil {
			return nil, err
		}
		d := net.Dialer{LocalAddr: local}
		return d.DialContext(ctx, "tcp", server)
	case "stream", "polling":
		local, err := cm.ParseAddr(from)
		if err != nil {
			return nil, err
		}
		d := stream.Dialer{Options: x.options(), CM: cm.Dialer{Host: x.host, LocalAddr: local}}
		return d.DialContext(ctx, "tcp", server)
	}
	return nil, errExchangeUsage
}

// echo serves the rounds of one client until it closes the connection.
func (x *exchange) echo(ln net.Listener) error {
	conn, err := ln.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	buf := make([]byte, x.size)
	for {
		for i := range x.count {
			if _, err := io.ReadFull(conn, buf); err == io.EOF && i == 0 {
				return nil
			} else if err != nil {
				return err
			}
		}
		for range x.count {
			if _, err := conn.Write(buf); err != nil {
				return err
			}
		}
	}
}

// exchangeWarmUp bounds the rounds before the measured ones.
const exchangeWarmUp = 100

// send is the client of echo.
func (x *exchange) send(ctx context.Context, from, server string) (timesOf, error) {
	conn, err := x.dial(ctx, from, server)
	if err != nil {
		return timesOf{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	buf := make([]byte, x.size)
	round := func() error {
		for range x.count {
			if _, err := conn.Write(buf); err != nil {
				return err
			}
		}
		for range x.count {
			if _, err := io.ReadFull(conn, buf); err != nil {
				return err
			}
		}
		return nil
	}
	for range min(exchangeWarmUp, x.rounds) {
		if err := round(); err != nil {
			return timesOf{}, err
		}
	}
	each, total, err := timed(x.rounds, round)
	if err != nil {
		return timesOf{}, err
	}
	return summary(each, total, 2*x.count*x.rounds, 2*x.count), nil
}

// serveHTTP serves until the process is killed.
func (x *exchange) serveHTTP(ln net.Listener) error {
	body := make([]byte, x.size)
	return http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(body) }))
}

// get is the client of serveHTTP.
func (x *exchange) get(ctx context.Context, from, server string) (timesOf, error) {
	tr := &http.Transport{
		MaxIdleConnsPerHost: x.count,
		DialContext: func(ctx context.Context, _, server string) (net.Conn, error) {
			return x.dial(ctx, from, server)
		},
	}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}
	request := func() error {
		req, err := http.NewRequestWithContext(ctx, "GET", "http://"+server+"/", nil)
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		n, err := io.Copy(io.Discard, res.Body)
		if err == nil && n != int64(x.size) {
			err = fmt.Errorf("the answer has %d bytes, want %d", n, x.size)
		}
		return err
	}
	run := func(rounds int) (each []time.Duration, err error) {
		times, errs := make([][]time.Duration, x.count), make([]error, x.count)
		var all sync.WaitGroup
		for i := range x.count {
			all.Go(func() { times[i], _, errs[i] = timed(rounds, request) })
		}
		all.Wait()
		return slices.Concat(times...), errors.Join(errs...)
	}
	if _, err := run(min(10, x.rounds)); err != nil {
		return timesOf{}, err
	}
	start := time.Now()
	each, err := run(x.rounds)
	if err != nil {
		return timesOf{}, err
	}
	return summary(each, time.Since(start), len(each), 1), nil
}

// timed runs a function so many times, and returns the time of each run and of all.
func timed(times int, f func() error) (each []time.Duration, total time.Duration, err error) {
	each = make([]time.Duration, 0, times)
	start := time.Now()
	last := start
	for range times {
		if err := f(); err != nil {
			return nil, 0, err
		}
		now := time.Now()
		each, last = append(each, now.Sub(last)), now
	}
	return each, last.Sub(start), nil
}

// summary returns the results of runs that have moved so many messages in total, and so many each.
func summary(each []time.Duration, total time.Duration, messages, perRun int) timesOf {
	us := make([]float64, len(each))
	for i, d := range each {
		us[i] = float64(d.Nanoseconds()) / 1e3 / float64(perRun)
	}
	return timesOf{Mean: float64(total.Nanoseconds()) / 1e3 / float64(messages), P50: median(us)}
}

// over returns a run of the exchange on a network.
func (x exchange) over(network string) func(context.Context, *env) (figures, error) {
	x.network = network
	return func(ctx context.Context, e *env) (figures, error) {
		server := append([]string{e.self}, x.args("server", e.hosts[0].IPv4.String())...)
		client := append([]string{e.self}, x.args("client", e.hosts[1].IPv4.String())...)
		out, err := e.meet(ctx, server, client)
		if err != nil {
			return figures{}, err
		}
		var times timesOf
		if err := json.Unmarshal(out, &times); err != nil {
			return figures{}, fmt.Errorf("the client printed %q: %w", out, err)
		}
		return times.figures()
	}
}

// meet starts a server that prints its address, and runs a client with this address as its last argument. It returns
// the output of the client.
func (e *env) meet(ctx context.Context, server, client []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	s := exec.CommandContext(ctx, server[0], server[1:]...)
	s.Stderr = os.Stderr
	said, err := s.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.Start(); err != nil {
		return nil, err
	}
	defer func() { s.Process.Kill(); s.Wait() }()
	addr, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the server: %w", err)
	}
	out, err := e.client(ctx, client[0], append(client[1:], strings.TrimSpace(addr))...).Output()
	if err != nil {
		if ee, ok := err.(*exec.ExitError); ok {
			err = fmt.Errorf("%w: %s", err, lastLines(ee.Stderr))
		}
		return nil, fmt.Errorf("the client: %w", err)
	}
	return out, nil
}
