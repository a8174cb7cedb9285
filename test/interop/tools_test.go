// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/test/pairing"
)

// tool returns our program of a name, which lies beside the rping that the
// environment names, and rdma-core's.
func tool(t *testing.T, name string) (ours, theirs pairing.Program) {
	t.Helper()
	vmtest.Need(t)
	path := filepath.Join(filepath.Dir(os.Getenv("RPING")), name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("our %s: %v", name, err)
	}
	c, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("rdma-core's %s is missing: %v", name, err)
	}
	return pairing.Program{Name: "Go", Path: path}, pairing.Program{Name: "C", Path: c}
}

// pairs are the ways to combine two implementations, the server first.
func pairs(ours, theirs pairing.Program) [][2]pairing.Program {
	return [][2]pairing.Program{{ours, ours}, {ours, theirs}, {theirs, ours}, {theirs, theirs}}
}

const (
	toolLimit = 30 * time.Second // of a client
	startWait = 10 * time.Second // until a server listens
)

// meeting is a server and a client that are to end by themselves.
type meeting struct {
	server, client         pairing.Program
	serverArgs, clientArgs []string
	serverStays            bool   // it is killed when the client has ended
	refused                string // what a client prints when nobody listens, "" for what most print
	// check judges the outputs; of a server that stays so far.
	check func(server, client pairing.Output) error
}

// run runs both, with a second try where a C program takes part: those fail now
// and then among themselves.
func (m meeting) run(t *testing.T) {
	t.Helper()
	err := m.try(t.Context(), t)
	for range 10 {
		if !errors.Is(err, errOvertaken) {
			break
		}
		t.Log(err)
		err = m.try(t.Context(), t)
	}
	if err != nil && (m.server.Name == "C" || m.client.Name == "C") {
		t.Logf("first try: %v", err)
		err = m.try(t.Context(), t)
	}
	if err != nil {
		t.Error(err)
	}
}

// errOvertaken reports a connection that siw refused before any data was transferred: the
// first message of the server, which must not send first on iWARP (RFC 5044, 7.1), had
// overtaken the end of the handshake (docs/reference/driver-faults.md).
var errOvertaken = errors.New("the server's first message came with the answer to the connect request, and siw refused both")

// overtaken reports whether that has happened to a client.
func overtaken(client pairing.Output) bool {
	return vmtest.Driver() == "siw" && client.Status != 0 &&
		strings.Contains(client.Stdout, "event: RDMA_CM_EVENT_CONNECT_ERROR, error: -22\n") &&
		!strings.Contains(client.Stdout, "data transfers")
}

func (m meeting) try(ctx context.Context, t *testing.T) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server, err := start(ctx, t, m.server, m.serverArgs...)
	if err != nil {
		return err
	}
	client, err := m.ask(ctx, server)
	if err != nil {
		return err
	}
	served := server.Output()
	if !m.serverStays {
		if served, err = server.Wait(startWait); err != nil {
			return fmt.Errorf("server: %w\nclient: %v\nserver: %v", err, client, served)
		}
	}
	if overtaken(client) {
		return errOvertaken
	}
	if err := m.check(served, client); err != nil {
		return fmt.Errorf("%w\nclient: %v\nserver: %v", err, client, served)
	}
	return nil
}

// start starts a server, and waits until it has an ID, if it is to listen on an address:
// of many connections that come while it begins to listen some would be refused, and
// some not.
func start(ctx context.Context, t *testing.T, server pairing.Program, args ...string) (*pairing.Process, error) {
	host := vmtest.Hosts(t, 2)[0]
	ids := host.CMIDs(t)
	proc, err := pairing.Start(ctx, server, args...)
	if err == nil && slices.Contains(args, "-b") {
		for start := time.Now(); host.CMIDs(t) == ids && proc.Alive() && time.Since(start) < startWait; {
			time.Sleep(10 * time.Millisecond)
		}
	}
	return proc, err
}

// ask runs the client, again until the server listens.
func (m meeting) ask(ctx context.Context, server *pairing.Process) (client pairing.Output, err error) {
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		proc, err := pairing.Start(ctx, m.client, m.clientArgs...)
		if err != nil {
			return client, err
		}
		client, err = proc.Wait(toolLimit)
		if err != nil {
			return client, fmt.Errorf("client: %w\nclient: %v\nserver: %v", err, client, server.Output())
		}
		if !m.wasRefused(client) || time.Since(start) > startWait || !server.Alive() {
			return client, nil
		}
	}
}

// wasRefused reports whether a client found nobody who listens.
func (m meeting) wasRefused(o pairing.Output) bool {
	said := o.Stdout + o.Stderr
	return m.refused != "" && strings.Contains(said, m.refused) ||
		strings.Contains(said, "RDMA_CM_EVENT_REJECTED, error: 8\n") ||
		strings.Contains(said, "RDMA_CM_EVENT_REJECTED, error: -111\n") ||
		strings.Contains(said, "ing: Connection refused\n") || strings.Contains(said, "rdma_connect: Connection refused\n")
}

// printed checks a status of 0 and the lines of an output.
func printed(who string, o pairing.Output, want string) error {
	if o.Status != 0 || o.Stdout != want || o.Stderr != "" {
		return fmt.Errorf("%s: status %d, printed %q and %q, want %q", who, o.Status, o.Stdout, o.Stderr, want)
	}
	return nil
}

// both checks the lines of both sides.
func both(wantServer, wantClient string) func(server, client pairing.Output) error {
	return func(server, client pairing.Output) error {
		return errors.Join(printed("client", client, wantClient), printed("server", server, wantServer))
	}
}

func newPort() string { return strconv.Itoa(pairing.NewPort()) }

// What the programs print about a command line, and where nothing answers, is the
// same, but for lines that we add to standard error.
func sameWords(t *testing.T, name string, lines ...string) {
	ours, theirs := tool(t, name)
	for _, args := range lines {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			want, got := words(t, theirs, args), words(t, ours, args)
			if got.Stdout != want.Stdout || got.Status != want.Status || !hasLines(got.Stderr, want.Stderr) {
				t.Errorf("ours: %v\nC: %v", got, want)
			}
		})
	}
}

// words is the output of a program, with its path left out.
func words(t *testing.T, p pairing.Program, args string) pairing.Output {
	t.Helper()
	o := output(t, p, args)
	o.Stdout, o.Stderr = strings.ReplaceAll(o.Stdout, p.Path, "PROGRAM"), strings.ReplaceAll(o.Stderr, p.Path, "PROGRAM")
	return o
}

// hasLines reports whether text has all lines of some, in their order.
func hasLines(text, some string) bool {
	for line := range strings.Lines(some) {
		_, after, found := strings.Cut(text, line)
		if !found {
			return false
		}
		text = after
	}
	return true
}
