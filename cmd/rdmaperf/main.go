// SPDX-License-Identifier: Apache-2.0

// Rdmaperf measures bandwidth and latency between two hosts, with the tests of perftest: send,
// write, read and atomic.
//
//	rdmaperf [-R] [-p port] [-B address] [-d device]   the server, for one test
//	rdmaperf TEST [flags] server                       the client; TEST as write_bw, send_lat
//
// The client chooses the test. The server takes only the flags of its address. As with
// perftest, QPs have type RC unless -c selects UC or UD. The two sides exchange the addresses
// of the QPs over TCP. With -R on both sides the connection manager connects them, which iWARP
// needs.
//
// The table is perftest's, with one line for each size. A line of percentiles follows each line
// of latencies. As in perftest, half of the round trip counts in send_lat and write_lat. With
// --json the program prints one object at the end instead.
//
// The handshake differs from perftest's, so that perftest's programs cannot be the other side.
// It uses JSON on a control connection, which is separate from the measured connections. With
// -R the messages on it are SENDs. Unlike in perftest, a sender never has more messages in
// flight than the receiver has receives. The receiver announces every 64 receives in a message
// without a body.
//
// The exit status is 0 for success, 1 if a test fails, or 2 for a bad command line.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"

	"purerdma/cmd/internal/tool"
)

// Exit statuses.
const (
	statusFailed = 1
	statusUsage  = 2
)

func main() { tool.Main(run) }

// run runs the program until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	u := tool.NewUI("rdmaperf", stdout, stderr)
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		u.Fail(err)
		return statusUsage
	}
	if o.server == "" {
		err = serve(ctx, o, func(addr string, _ int) { u.Printf("listening on %s\n", addr) })
	} else {
		err = runClient(ctx, o, u)
	}
	if err == nil {
		err = u.Failure()
	}
	if err != nil {
		u.Fail(err)
		return statusFailed
	}
	return 0
}

func runClient(ctx context.Context, o *options, u *tool.UI) error {
	p := &progress{out: u.Err, on: !o.json && terminal(u.Err)}
	results := []result{}
	top := header(o.kind)
	err := measure(ctx, o, func(e *end) { p.start(&e.done) }, func(r result) error {
		p.clear()
		if results = append(results, r); o.json {
			return nil
		}
		err := u.Printf("%s%s", top, r.line())
		top = ""
		return err
	})
	p.stop()
	if err != nil || !o.json {
		return err
	}
	b, err := json.Marshal(map[string]any{"plan": o.plan, "results": results})
	if err != nil {
		return err
	}
	return u.Printf("%s\n", b)
}

// terminal reports whether w is a terminal.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
