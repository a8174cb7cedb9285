// SPDX-License-Identifier: Apache-2.0

// Rdmaperf measures bandwidth and latency between two hosts, with the tests of
// perftest: send, write, read and atomic.
//
//	rdmaperf [-R] [-p port] [-B address] [-d device]   the server, for one test
//	rdmaperf TEST [flags] server                       the client; TEST as write_bw, send_lat
//
// The client says what is to be done: the server takes no flags but those of its
// address. As with perftest, QPs are of type RC unless -c says UC or UD, and are
// connected by what the two sides tell each other over TCP, or with -R on both by the
// connection manager, which iWARP needs. The table is perftest's, one line for each
// size; of latencies, a line of percentiles follows. A round of send_lat and
// write_lat counts half, as in perftest. --json prints one object at the end
// instead.
//
// The handshake is its own: a connection of control beside those that are
// measured, which carries JSON (of SENDs with -R). perftest's programs cannot be the other side.
// Unlike perftest, a sender never has more messages out than the receiver has
// receives: of every 64 the receiver says so, in a message without a body.
//
// The exit status is 0, 1 if a test fails, or 2 for a bad command line.
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

// run is the program. It ends with ctx.
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
	if !o.json {
		u.Printf("%s", header(o.kind))
	}
	err := measure(ctx, o, func(e *end) { p.start(&e.done) }, func(r result) error {
		p.clear()
		if results = append(results, r); o.json {
			return nil
		}
		return u.Printf("%s", r.line())
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

// terminal says whether w is one.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
