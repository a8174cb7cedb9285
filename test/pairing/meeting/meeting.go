// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package meeting runs a server and a client of one program in the virtual machine, one on each
// host. The programs come from rdma-core and perftest.
package meeting

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"purerdma/internal/vmtest"
	"purerdma/test/pairing"
)

// Time limits of programs.
const (
	ClientLimit = time.Minute
	ServerLimit = 5 * time.Second // after the client has ended
)

// Program returns a program of rdma-core or of perftest.
func Program(t *testing.T, name string) pairing.Program {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("exec.LookPath: %v", err)
	}
	return pairing.Program{Name: name, Path: path}
}

// Meeting is a server and a client of one program.
type Meeting struct {
	Program        string
	Server, Client []string // arguments
	Want           []string // lines that both print.
	ClientWant     string   // line that the client prints.
	Stays          bool     // whether the server does not end by itself.
	TCP            string   // TCP port of their meeting, "" for the connection manager.
}

// Run runs both programs, which have to succeed.
func (m Meeting) Run(t *testing.T) {
	t.Helper()
	for tries := 1; ; tries++ {
		client, served, err := m.try(t)
		if tries < 5 && (noClock(client) || noClock(served)) {
			continue
		}
		if err != nil || client.Status != 0 || served.Status != 0 {
			t.Errorf("%v\nclient: %v\nserver: %v", err, client, served)
		}
		for _, w := range m.Want {
			if !strings.Contains(client.Stdout, w) || !m.Stays && !strings.Contains(served.Stdout, w) {
				t.Errorf("no %q\nclient: %v\nserver: %v", w, client, served)
			}
		}
		if !strings.Contains(client.Stdout, m.ClientWant) {
			t.Errorf("no %q\nclient: %v", m.ClientWant, client)
		}
		return
	}
}

// noClock reports whether a program of perftest measured an implausible processor frequency,
// which happens on emulated processors.
func noClock(o pairing.Output) bool { return strings.Contains(o.Stderr, "Correlation coefficient") }

// try runs both programs once.
func (m Meeting) try(t *testing.T) (client, served pairing.Output, err error) {
	t.Helper()
	p := Program(t, m.Program)
	host := vmtest.Hosts(t, 2)[0]
	listeners := host.Listeners(t)
	server, err := pairing.Start(t.Context(), p, m.Server...)
	if err != nil {
		t.Fatalf("pairing.Start: %v", err)
	}
	// A client that starts too early has to be started again. If many connections arrive when
	// the server starts to listen, some of them would be refused.
	for start := time.Now(); server.Alive() && time.Since(start) < ServerLimit; time.Sleep(10 * time.Millisecond) {
		if m.TCP != "" && listens(t, m.TCP) || m.TCP == "" && host.Listeners(t) > listeners {
			break
		}
	}
	client, err = pairing.RunWhile(t.Context(), p, ClientLimit, func(o pairing.Output) bool { return server.Alive() && NobodyListens(o) }, m.Client...)
	if served = server.Output(); !m.Stays {
		var serr error
		served, serr = server.Wait(ServerLimit)
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

// NobodyListens reports whether a client started too early.
func NobodyListens(o pairing.Output) bool {
	for _, text := range []string{
		"Couldn't connect to ", "Connection refused", "RDMA_CM_EVENT_REJECTED, error 8", "RDMA_CM_EVENT_REJECTED, error: 8", "RDMA_CM_EVENT_UNREACHABLE, error: 1", "Unable to connect", "rdma_connect: Connection refused",
	} {
		if strings.Contains(o.Stdout+o.Stderr, text) {
			return true
		}
	}
	return false
}

// Port returns a TCP port that this process has not used before.
func Port() string { return strconv.Itoa(pairing.NewPort()) }
