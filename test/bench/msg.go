// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"purerdma/cm"
	"purerdma/msg"
	"purerdma/verbs"
)

// caller is one of the two ends of package msg that benchMessages measures.
type caller struct {
	host       *verbs.Host // nil means verbs.DefaultHost
	kind       string      // of messageKinds
	goroutines int
}

// Kinds of calls.
const (
	callSmall = "call"          // A request and a reply.
	callSpin  = "spin"          // A call that polls.
	callLent  = "transfer"      // The server READs memory that the call lends.
	callLoan  = "loan"          // The server READs memory that is lent until the end.
	lentSpin  = "transfer-spin" // callLent with a server that polls.
	loanSpin  = "loan-spin"     // callLoan with a server that polls.

	smallLen   = 64
	bulkLen    = 1 << 20
	callWarmUp = 100
)

var messageKinds = []string{callSmall, callSpin, callLent, callLoan, lentSpin, loanSpin}

// messageBench is one comparison of calls with rdmaperf. Its goal is a ratio of times.
type messageBench struct {
	name string // for -cells
	caller
	what  string
	other cell
	calls int
	goal  float64
	// half is set if the time of a call is compared as two messages, because a latency test of
	// perftest and rdmaperf reports half of a round trip.
	half bool
}

// messageBenches lists the comparisons. A VM with an emulated processor takes less than a second for each run. rdmaperf
// polls where it READs, and not in the process whose memory it READs.
func messageBenches() []messageBench {
	const calls, transfers = 2000, 40
	latency := cell{test: "send_lat", size: smallLen, qps: 1, list: 1}
	sleeping := latency
	sleeping.events = true
	rate := cell{test: "send_bw", size: smallLen, qps: 1, list: 1, outstanding: 100, messages: 2 * calls}
	read := cell{test: "read_bw", size: bulkLen, qps: 1, list: 1, outstanding: 4, messages: transfers}
	all := []messageBench{
		{"call/polled", caller{kind: callSpin, goroutines: 1}, "64 B call that polls, against send_lat", latency, calls, 1.3, true},
		{"call/sleeping", caller{kind: callSmall, goroutines: 1}, "64 B call, against send_lat", latency, calls, 0, true},
		{"call/events", caller{kind: callSmall, goroutines: 1}, "64 B call, against send_lat with events", sleeping, calls, 0, true},
		{"calls/100", caller{kind: callSmall, goroutines: 100}, "100 calls of 64 B, against send_bw", rate, 2 * calls, 1 / 0.8, false},
	}
	for _, b := range []struct{ name, kind, what string }{
		{"lent/sleeping", callLent, "1 MiB lent by a call, against read_bw"},
		{"lent/polled", lentSpin, "1 MiB lent by a call, polled, against read_bw"},
		{"loan/sleeping", callLoan, "1 MiB lent before, against read_bw"},
		{"loan/polled", loanSpin, "1 MiB lent before, polled, against read_bw"},
	} {
		all = append(all, messageBench{b.name, caller{kind: b.kind, goroutines: 4}, b.what, read, transfers, 1 / 0.95, false})
	}
	return all
}

// benchMessages compares the calls of package msg with rdmaperf. On devices that count them it also prints how many
// requests were sent again.
func benchMessages(ctx context.Context, e *env) error {
	pick, err := regexp.Compile(e.cells)
	if err != nil {
		return fmt.Errorf("-cells: %w", err)
	}
	restore, err := raiseBacklog()
	if err != nil {
		return err
	}
	defer restore()
	outside := 0
	for _, b := range messageBenches() {
		if !pick.MatchString(b.name) {
			continue
		}
		var repeated, theirs int64
		ours := countRepeats(&repeated, func(ctx context.Context, e *env, _ cell) (figures, error) {
			f, err := b.caller.processes(ctx, e, b.calls)
			if b.half {
				f.message /= 2
			}
			return f, err
		})
		message, _, err := e.alternate(ctx, b.other, countRepeats(&theirs, rdmaperf), ours)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Printf(" %s: %v\n", b.what, err)
			outside++
			continue
		}
		label := b.what
		if b.goal > 0 {
			label += fmt.Sprintf(" (goal %.3g)", b.goal)
			if lo, _ := interval(message.ratios()); lo > b.goal {
				outside++
			}
		}
		fmt.Printf(" %-56s", label)
		message.printAs("rdmaperf", "msg", "us/message")
		if repeated > 0 || theirs > 0 {
			fmt.Printf("   repeated requests: rdmaperf %d, msg %d\n", theirs, repeated)
		}
	}
	fmt.Printf(" outside the goal: %d\n", outside)
	return nil
}

// processes runs the two ends in processes of their own. It returns the median time of a call of one
// goroutine, and otherwise the whole time by the calls.
func (c caller) processes(ctx context.Context, e *env, calls int) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	args := []string{c.kind, strconv.Itoa(c.goroutines)}
	return pairOfProcesses(ctx, e, "-message", args, strconv.Itoa(calls))
}

var errMessageUsage = errors.New("usage: -message server ADDRESS KIND GOROUTINES, -message client ADDRESS KIND GOROUTINES CALLS SERVER")

// messageHere is one of the two processes.
func messageHere(ctx context.Context, role string, args []string, w io.Writer) error {
	if role == "server" && len(args) != 3 || role == "client" && len(args) != 5 || role != "server" && role != "client" || !slices.Contains(messageKinds, args[1]) {
		return errMessageUsage
	}
	n, err := strconv.Atoi(args[2])
	if err != nil || n < 1 {
		return errMessageUsage
	}
	c := &caller{kind: args[1], goroutines: n}
	at := net.JoinHostPort(args[0], "0")
	if role == "server" {
		return c.serve(ctx, at, w)
	}
	calls, err := strconv.Atoi(args[3])
	if err != nil || calls < 1 {
		return errMessageUsage
	}
	each, err := c.measure(ctx, at, args[4], calls)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%g\n", float64(each.Nanoseconds())/1e3)
	return err
}

// small reports whether the calls lend nothing.
func (c *caller) small() bool { return c.kind == callSmall || c.kind == callSpin }

// lends reports whether each call lends its memory.
func (c *caller) lends() bool { return c.kind == callLent || c.kind == lentSpin }

// options returns the options of the server or of the client.
func (c *caller) options(server bool) msg.Options {
	if c.kind == callSpin || server && (c.kind == lentSpin || c.kind == loanSpin) {
		return msg.Options{Spin: busyWait}
	}
	return msg.Options{}
}

// serve prints its address, and serves one client.
func (c *caller) serve(ctx context.Context, addr string, w io.Writer) error {
	lc := msg.ListenConfig{Options: c.options(true), CM: cm.ListenConfig{Host: c.host}}
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	if _, err := fmt.Fprintln(w, ln.Addr()); err != nil {
		return err
	}
	conn, err := ln.Accept(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var transfers sync.WaitGroup
	defer transfers.Wait()
	for {
		m, err := conn.Receive(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !c.small() {
			transfers.Go(func() {
				defer m.Free()
				if err := c.transfer(ctx, conn, m); err != nil {
					fmt.Fprintln(os.Stderr, "bench: transfer:", err)
				}
			})
			continue
		}
		err = m.Reply(ctx, 0, m.Bytes())
		m.Free()
		if err != nil {
			return err
		}
	}
}

// transfer reads lent memory, and answers the request.
func (c *caller) transfer(ctx context.Context, conn *msg.Conn, m *msg.Message) error {
	b, err := conn.Pool().Get(ctx, bulkLen)
	if err != nil {
		return err
	}
	defer b.Free()
	if c.lends() {
		err = m.ReadLent(ctx, b.SGE(), 0)
	} else {
		var token msg.Token
		if err = token.UnmarshalBinary(m.Bytes()); err == nil {
			err = conn.Read(ctx, b.SGE(), token)
		}
	}
	if err != nil {
		return err
	}
	return m.Reply(ctx, 0, nil)
}

// measure connects and returns the time of a call.
func (c *caller) measure(ctx context.Context, from, server string, calls int) (time.Duration, error) {
	src, err := cm.ParseAddr(from)
	if err != nil {
		return 0, err
	}
	d := msg.Dialer{Options: c.options(false), CM: cm.Dialer{Host: c.host, LocalAddr: src}}
	conn, err := d.Dial(ctx, "tcp", server)
	if err != nil {
		return 0, err
	}
	var mrs []*verbs.MR
	defer func() {
		conn.Close() // ends the loans
		for _, mr := range mrs {
			_ = mr.Close() // the process ends
		}
	}()
	requests := make([]*msg.Request, c.goroutines)
	for g := range requests {
		if c.small() {
			requests[g] = &msg.Request{Data: make([]byte, smallLen)}
			continue
		}
		mr, err := conn.PD().Alloc(bulkLen, verbs.LocalWrite|verbs.MWBind)
		if err != nil {
			return 0, err
		}
		mrs = append(mrs, mr)
		if requests[g], err = c.bulkRequest(ctx, conn, mr); err != nil {
			return 0, err
		}
	}
	if _, err := c.run(ctx, conn, requests, min(callWarmUp, calls)); err != nil {
		return 0, err
	}
	start := time.Now()
	each, err := c.run(ctx, conn, requests, calls)
	if c.goroutines > 1 {
		return time.Since(start) / time.Duration(calls), err
	}
	slices.Sort(each)
	return each[len(each)/2], err
}

// bulkRequest returns the request that a goroutine sends again and again.
func (c *caller) bulkRequest(ctx context.Context, conn *msg.Conn, mr *verbs.MR) (*msg.Request, error) {
	mem := msg.Memory{Bytes: mr.Bytes(), MR: mr}
	if c.lends() {
		return &msg.Request{Read: mem}, nil
	}
	loan, err := conn.Lend(ctx, mem, verbs.RemoteRead)
	if err != nil {
		return nil, err
	}
	data, err := loan.Token().MarshalBinary()
	return &msg.Request{Data: data}, err
}

// run makes calls, and returns the time of each if one goroutine makes them.
func (c *caller) run(ctx context.Context, conn *msg.Conn, requests []*msg.Request, calls int) (each []time.Duration, err error) {
	if len(requests) == 1 {
		each = make([]time.Duration, 0, calls)
	}
	var left atomic.Int64
	left.Store(int64(calls))
	errs := make([]error, len(requests))
	var all sync.WaitGroup
	for g, r := range requests {
		all.Go(func() {
			for errs[g] == nil && left.Add(-1) >= 0 {
				start := time.Now()
				m, err := callOnce(ctx, conn, r)
				if errs[g] = err; err != nil {
					return
				}
				m.Free()
				if each != nil {
					each = append(each, time.Since(start))
				}
			}
		})
	}
	all.Wait()
	return each, errors.Join(errs...)
}

// callOnce makes a call, with lent memory if the request has some.
func callOnce(ctx context.Context, conn *msg.Conn, r *msg.Request) (*msg.Message, error) {
	if r.Read.Bytes == nil {
		return conn.Call(ctx, 0, r.Data)
	}
	return conn.Do(ctx, r)
}
