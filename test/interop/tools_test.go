// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"purerdma/internal/longtest"
	"purerdma/internal/vmtest"
	"purerdma/test/pairing"
)

// tool returns the Go program with a name, in the directory of the environment's rping, and
// rdma-core's program.
func tool(t *testing.T, name string) (ours, theirs pairing.Program) {
	t.Helper()
	vmtest.Need(t)
	path := filepath.Join(filepath.Dir(os.Getenv("RPING")), name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("Go program %s: %v", name, err)
	}
	c, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("rdma-core's %s is missing: %v", name, err)
	}
	return pairing.Program{Name: "Go", Path: path}, pairing.Program{Name: "C", Path: c}
}

// pairs returns the combinations of two implementations, the server first.
func pairs(ours, theirs pairing.Program) [][2]pairing.Program {
	return [][2]pairing.Program{{ours, ours}, {ours, theirs}, {theirs, ours}, {theirs, theirs}}
}

const (
	toolLimit = 30 * time.Second // limit of a client
	longLimit = 10 * time.Minute // limit of a client in the long tests
	startWait = 10 * time.Second // limit until a server listens
)

// meeting is a run of a server and a client that end by themselves.
type meeting struct {
	server, client         pairing.Program
	serverArgs, clientArgs []string
	serverStays            bool   // whether to kill the server when the client has ended
	refused                string // output of a refused client, "" for the common output
	// check checks the outputs. For a server that stays it gets the output so far.
	check func(server, client pairing.Output) error
}

// run runs both programs. It repeats a run that met one of two faults of siw. If both programs are rdma-core's, it
// repeats any run once, because they occasionally fail with each other.
func (m meeting) run(t *testing.T) {
	t.Helper()
	err := m.try(t.Context(), t)
	for range maxAttempts {
		if !errors.Is(err, errOvertaken) && !errors.Is(err, errUnread) {
			break
		}
		t.Log(err)
		err = m.try(t.Context(), t)
	}
	if err != nil && m.server.Name == "C" && m.client.Name == "C" {
		t.Logf("first try: %v", err)
		err = m.try(t.Context(), t)
	}
	if err != nil {
		t.Errorf("try: %v", err)
	}
}

// errOvertaken reports a connection that siw rejected before any data was transferred. The
// first message of the server overtook the end of the handshake
// (docs/reference/driver-faults.md). On iWARP the server must not send first (RFC 5044, 7.1).
var errOvertaken = errors.New("the server's first message came with the answer to the connect request, and siw refused both")

// overtaken reports whether this has happened to a client.
func overtaken(client pairing.Output) bool {
	event := strings.Contains(client.Stdout, "event: RDMA_CM_EVENT_CONNECT_ERROR, error: -22\n") &&
		!strings.Contains(client.Stdout, "data transfers")
	return vmtest.Driver() == "siw" && client.Status != 0 && (event || connectInvalid.MatchString(client.Stderr))
}

// connectInvalid is the message of a program of rsockets. An accepting side that uses rdma-core's rsockets sends
// credits first.
var connectInvalid = regexp.MustCompile(`rconnect( failed\n)?: Invalid argument\n`)

func (m meeting) try(ctx context.Context, t *testing.T) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if m.client.Name == "C" {
		ctx = unreadCancels(ctx, t)
		defer func() {
			if err != nil && context.Cause(ctx) == errUnread {
				err = fmt.Errorf("%w\n%w", errUnread, err)
			}
		}()
	}
	server, err := start(ctx, t, m.server, m.serverArgs...)
	if err != nil {
		return err
	}
	client, err := m.ask(ctx, server)
	if err != nil {
		return err
	}
	if overtaken(client) { // rdma-core's server may wait for ever then
		return errOvertaken
	}
	served := server.Output()
	if !m.serverStays {
		if served, err = server.Wait(startWait); err != nil {
			return fmt.Errorf("server: %w\nclient: %v\nserver: %v", err, client, served)
		}
	}
	if err := m.check(served, client); err != nil {
		return fmt.Errorf("%w\nclient: %v\nserver: %v", err, client, served)
	}
	return nil
}

// start starts a server. If it listens on an address, start waits until an ID or a TCP socket listens. Otherwise
// some of many connections would be refused while it starts to listen.
func start(ctx context.Context, t *testing.T, server pairing.Program, args ...string) (*pairing.Process, error) {
	host := vmtest.Hosts(t, 2)[0]
	listeners := host.Listeners(t)
	proc, err := pairing.Start(ctx, server, args...)
	if err != nil || !slices.Contains(args, "-b") {
		return proc, err
	}
	if i := slices.Index(args, "-p"); slices.Contains(args, "s") { // -T s
		awaitListener(args[i+1], proc.Alive)
	} else {
		awaitServer(t, host, listeners, proc.Alive)
	}
	return proc, err
}

// awaitListener waits until a TCP socket listens on a port. It stops waiting if the server is no longer alive.
func awaitListener(port string, alive func() bool) {
	n, _ := strconv.Atoi(port)
	listening := regexp.MustCompile(fmt.Sprintf(`(?m)^ *\d+: [0-9A-F]{8}:%04X \S+ 0A `, n))
	for start := time.Now(); alive() && time.Since(start) < startWait; time.Sleep(10 * time.Millisecond) {
		if table, _ := os.ReadFile("/proc/net/tcp"); listening.Match(table) {
			return
		}
	}
}

// awaitServer waits until a host has more listening IDs than before. It stops waiting if the server is no longer
// alive.
func awaitServer(t *testing.T, host vmtest.Host, before int, alive func() bool) {
	for start := time.Now(); host.Listeners(t) <= before && alive() && time.Since(start) < startWait; {
		time.Sleep(10 * time.Millisecond)
	}
}

// ask runs the client, and repeats it until the server listens.
func (m meeting) ask(ctx context.Context, server *pairing.Process) (client pairing.Output, err error) {
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		proc, err := pairing.Start(ctx, m.client, m.clientArgs...)
		if err != nil {
			return client, err
		}
		limit := toolLimit
		if longtest.Enabled() {
			limit = longLimit
		}
		client, err = proc.Wait(limit)
		if err != nil {
			return client, fmt.Errorf("client: %w\nclient: %v\nserver: %v", err, client, server.Output())
		}
		if !m.wasRefused(client) || time.Since(start) > startWait || !server.Alive() {
			return client, nil
		}
	}
}

// wasRefused reports whether a client was refused because of a missing listener.
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

// both returns a check of the lines of both sides.
func both(wantServer, wantClient string) func(server, client pairing.Output) error {
	return func(server, client pairing.Output) error {
		return errors.Join(printed("client", client, wantClient), printed("server", server, wantServer))
	}
}

func newPort() string { return strconv.Itoa(pairing.NewPort()) }

// sameWords checks that the output for a command line, and without a peer, is equal in both
// programs. The Go program may print additional lines on standard error.
func sameWords(t *testing.T, name string, lines ...string) {
	ours, theirs := tool(t, name)
	for _, args := range lines {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			want, got := words(t, theirs, args), words(t, ours, args)
			if got.Stdout != want.Stdout || got.Status != want.Status || !hasLines(got.Stderr, want.Stderr) {
				t.Errorf("Go: %v\nC: %v", got, want)
			}
		})
	}
}

// words returns the output of a program without its path.
func words(t *testing.T, p pairing.Program, args string) pairing.Output {
	t.Helper()
	o := output(t, p, args)
	o.Stdout, o.Stderr = strings.ReplaceAll(o.Stdout, p.Path, "PROGRAM"), strings.ReplaceAll(o.Stderr, p.Path, "PROGRAM")
	return o
}

// hasLines reports whether text contains all lines of some in their order.
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
