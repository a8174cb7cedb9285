// SPDX-License-Identifier: Apache-2.0

//go:build linux

package libmlx5

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/test/pairing"
	"purerdma/verbs"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

const (
	clientLimit = time.Minute
	serverLimit = 5 * time.Second // after the client has ended
)

// program returns a program of rdma-core or of perftest.
func program(t *testing.T, name string) pairing.Program {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("exec.LookPath: %v", err)
	}
	return pairing.Program{Name: name, Path: path}
}

// meeting is a server and a client of one program.
type meeting struct {
	program        string
	server, client []string
	want           []string // lines that both print.
	clientWant     string   // line that the client prints.
	stays          bool     // whether the server does not end by itself.
	tcp            string   // TCP port of their meeting, "" for the connection manager
}

// run runs both programs, which have to succeed.
func (m meeting) run(t *testing.T) {
	t.Helper()
	for tries := 1; ; tries++ {
		client, served, err := m.try(t)
		if tries < 5 && (noClock(client) || noClock(served)) {
			continue
		}
		if err != nil || client.Status != 0 || served.Status != 0 {
			t.Errorf("%v\nclient: %v\nserver: %v", err, client, served)
		}
		for _, w := range m.want {
			if !strings.Contains(client.Stdout, w) || !m.stays && !strings.Contains(served.Stdout, w) {
				t.Errorf("no %q\nclient: %v\nserver: %v", w, client, served)
			}
		}
		if !strings.Contains(client.Stdout, m.clientWant) {
			t.Errorf("no %q\nclient: %v", m.clientWant, client)
		}
		return
	}
}

// noClock reports whether a program of perftest measured an implausible processor frequency,
// which happens on emulated processors.
func noClock(o pairing.Output) bool { return strings.Contains(o.Stderr, "Correlation coefficient") }

// try runs both programs once.
func (m meeting) try(t *testing.T) (client, served pairing.Output, err error) {
	t.Helper()
	p := program(t, m.program)
	host := vmtest.Hosts(t, 2)[0]
	ids := host.CMIDs(t)
	server, err := pairing.Start(t.Context(), p, m.server...)
	if err != nil {
		t.Fatalf("pairing.Start: %v", err)
	}
	// A client that starts too early has to be started again. If many connections arrive when
	// the server starts to listen, some of them would be refused.
	for start := time.Now(); server.Alive() && time.Since(start) < serverLimit; time.Sleep(10 * time.Millisecond) {
		if m.tcp != "" && listens(t, m.tcp) || m.tcp == "" && host.CMIDs(t) != ids {
			break
		}
	}
	client, err = pairing.RunWhile(t.Context(), p, clientLimit, func(o pairing.Output) bool { return server.Alive() && nobodyListens(o) }, m.client...)
	if served = server.Output(); !m.stays {
		var serr error
		served, serr = server.Wait(serverLimit)
		err = errors.Join(err, serr)
	}
	return client, served, err
}

// listens reports whether a TCP port has a listener.
func listens(t *testing.T, port string) bool {
	t.Helper()
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatalf("strconv.Atoi: %v", err)
	}
	local := fmt.Sprintf(":%04X", n)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := os.ReadFile(table)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		for line := range strings.Lines(string(b)) {
			// Number, local and remote address, state, where 0A is TCP_LISTEN.
			if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], local) && f[3] == "0A" {
				return true
			}
		}
	}
	return false
}

// nobodyListens reports whether a client started too early.
func nobodyListens(o pairing.Output) bool {
	for _, text := range []string{
		"Couldn't connect to ", "Connection refused", "RDMA_CM_EVENT_REJECTED, error 8", "RDMA_CM_EVENT_REJECTED, error: 8", "RDMA_CM_EVENT_UNREACHABLE, error: 1", "Unable to connect", "rdma_connect: Connection refused",
	} {
		if strings.Contains(o.Stdout+o.Stderr, text) {
			return true
		}
	}
	return false
}

// gidIndex returns the index of a host's RoCE v2 address in its table of GIDs.
func gidIndex(t *testing.T, h vmtest.Host, addr netip.Addr) string {
	t.Helper()
	dev, err := verbs.DefaultHost().Open(h.Device)
	if err != nil {
		t.Fatalf("verbs.DefaultHost().Open: %v", err)
	}
	defer dev.Close()
	g, err := dev.GIDFor(1, addr)
	if err != nil {
		t.Fatalf("dev.GIDFor: %v", err)
	}
	return strconv.Itoa(int(g.Index))
}

func port() string { return strconv.Itoa(pairing.NewPort()) }
