// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/test/pairing"
)

const cmtimeSteps = "create id|bind addr|resolve addr|resolve route|create qp|connect|disconnect|destroy"

var cmtimeRow = regexp.MustCompile(`^(` + cmtimeSteps + `) *: +([0-9.]+) +([0-9.]+) +([0-9.]+) +([0-9.]+)$`)

// cmtimeTable checks a client's output for a row with plausible times for each step, and for no
// failure.
func cmtimeTable(o pairing.Output, conns int) error {
	if o.Status != 0 || o.Stderr != "" {
		return fmt.Errorf("status %d, %q", o.Status, o.Stderr)
	}
	steps := strings.Split(cmtimeSteps, "|")
	want := "creating id\nbinding source address\nresolving address\nresolving route\ncreating qp\nconnecting\ndisconnecting\ndestroying id\n" +
		"step              total ms     max ms     min us  us / conn\n"
	rows, found := strings.CutPrefix(o.Stdout, want)
	if !found {
		return fmt.Errorf("printed %q, want it to begin with %q", o.Stdout, want)
	}
	lines := strings.Split(strings.TrimSuffix(rows, "\n"), "\n")
	if len(lines) != len(steps) {
		return fmt.Errorf("%d rows, want %d", len(lines), len(steps))
	}
	for i, line := range lines {
		m := cmtimeRow.FindStringSubmatch(line)
		if m == nil || m[1] != steps[i] {
			return fmt.Errorf("row %q, want that of %s", line, steps[i])
		}
		var v [4]float64 // total ms, max ms, min us, us per connection
		for k := range v {
			v[k], _ = strconv.ParseFloat(m[k+2], 64)
		}
		if v[0] <= 0 || v[1] > v[0]+0.01 || v[2]/1000 > v[1]+0.01 || v[3] < v[0]*1000/float64(conns)-10 || v[3] > v[0]*1000/float64(conns)+10 {
			return fmt.Errorf("row %q does not add up", line)
		}
	}
	return nil
}

// TestCmtime runs every pairing. A server serves one client after the other.
func TestCmtime(t *testing.T) {
	const conns = 50 // siw does not have memory for the queues of 100
	ours, theirs := tool(t, "cmtime")
	for _, path := range paths(t) {
		for _, server := range []pairing.Program{ours, theirs} {
			t.Run(server.Name+" "+path.Server, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				port := newPort()
				proc, err := start(ctx, t, server, "-b", path.Server, "-p", port)
				if err != nil {
					t.Fatalf("start: %v", err)
				}
				for _, client := range []pairing.Program{ours, theirs, ours} {
					out, err := cmtimeClient(ctx, proc, client, path, port, conns)
					for tries := 0; portTaken(out) && tries < 10; tries++ {
						out, err = cmtimeClient(ctx, proc, client, path, port, conns)
					}
					if err == nil {
						err = cmtimeTable(out, conns)
					}
					if err != nil {
						t.Errorf("client %s: %v\n%v\nserver: %v", client.Name, err, out, proc.Output())
					}
				}
				proc.Signal(syscall.SIGTERM)
				out, err := proc.Wait(startWait)
				if err != nil || out.Status != 128+int(syscall.SIGTERM) || out.Stdout+out.Stderr != "" {
					t.Errorf("server: %v %v", err, out)
				}
			})
		}
	}
}

// portTaken reports whether siw assigned a TCP port that was still in use to a client's
// connection (docs/reference/driver-faults.md).
func portTaken(client pairing.Output) bool {
	return vmtest.Driver() == "siw" && strings.Contains(client.Stderr, "failure rconnecting: Address already in use\n")
}

// cmtimeClient runs a client as soon as the server listens.
func cmtimeClient(ctx context.Context, server *pairing.Process, p pairing.Program, path pairing.Path, port string, conns int) (pairing.Output, error) {
	args := []string{"-s", path.Server, "-b", path.Client, "-p", port, "-c", strconv.Itoa(conns)}
	return meeting{client: p, clientArgs: args}.ask(ctx, server)
}

// TestCmtimeKilledClient checks that a server continues after a client was killed.
func TestCmtimeKilledClient(t *testing.T) {
	ours, theirs := tool(t, "cmtime")
	path, port := paths(t)[0], newPort()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server, err := start(ctx, t, ours, "-b", path.Server, "-p", port)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	if _, err := cmtimeClient(ctx, server, ours, path, port, 1); err != nil { // wait until the server listens
		t.Fatalf("cmtimeClient: %v", err)
	}
	for _, victim := range []pairing.Program{ours, theirs} {
		proc, err := pairing.Start(ctx, victim, "-s", path.Server, "-b", path.Client, "-p", port, "-c", "300")
		if err != nil {
			t.Fatalf("pairing.Start: %v", err)
		}
		time.Sleep(200 * time.Millisecond) // while the client is connecting
		proc.Signal(syscall.SIGKILL)
		proc.Wait(startWait)
	}
	out, err := cmtimeClient(ctx, server, theirs, path, port, 50)
	if err == nil {
		err = cmtimeTable(out, 50)
	}
	if err != nil || !server.Alive() {
		t.Errorf("%v\n%v\nserver: %v", err, out, server.Output())
	}
}

func TestCmtimeWords(t *testing.T) {
	path := paths(t)[0]
	ours, theirs := tool(t, "cmtime")
	sameWords(t, "cmtime", "-x", "-s") // an invalid address crashes the C program
	// The events are equal. The Go program fails where the C program reports success.
	args := "-s " + path.Server + " -b " + path.Client + " -c 3 -p " + newPort()
	c, goes := output(t, theirs, args), output(t, ours, args)
	// On iWARP the connect call itself fails.
	refused := func(o pairing.Output) int {
		return strings.Count(o.Stdout, "event: RDMA_CM_EVENT_REJECTED, error: 8\n") +
			strings.Count(o.Stderr, "failure rconnecting: Connection refused\n")
	}
	if refused(c) != 3 || refused(goes) != 3 || goes.Status != 255 || !strings.Contains(goes.Stderr, "3 of 3 connections failed") {
		t.Errorf("Go: %v\nC: %v", goes, c)
	}
}
