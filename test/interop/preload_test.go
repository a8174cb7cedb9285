// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/rsocket"
	"purerdma/test/pairing"
)

// preloaded is a program for TCP. It runs with librspreload, which replaces its socket calls by calls of
// librdmacm's rsockets. It copies its standard input to the peer, and the peer's bytes to its standard output.
type preloaded struct {
	name           string
	client, server func(path pairing.Path, port string) []string // arguments, nil if it does not work as a server
}

var preloadedPrograms = []preloaded{
	{"nc.traditional",
		func(p pairing.Path, port string) []string { return []string{"-n", "-s", p.Client, p.Server, port} },
		func(p pairing.Path, port string) []string { return []string{"-n", "-l", "-s", p.Server, "-p", port} },
	},
	{"ncat",
		func(p pairing.Path, port string) []string { return []string{"-n", "-s", p.Client, p.Server, port} },
		nil,
	},
}

// preloadLimit bounds one transfer.
const preloadLimit = 40 * time.Second

// preloadSize is the size of the exchanged data in bytes. It is larger than the buffers of both sides.
const preloadSize = 1_000_003

// TestPreload transfers data to and from ordinary C programs, as clients and as servers. The data flows in one
// direction at a time.
func TestPreload(t *testing.T) {
	path := paths(t)[0]
	for _, p := range preloadedPrograms {
		for _, sends := range []bool{false, true} {
			direction, transfer := " receives", sendTo
			if sends {
				direction, transfer = " sends", receiveFrom
			}
			t.Run(p.name+" client"+direction, func(t *testing.T) {
				vmtest.NoLeaks(t)
				whenRead(t, func(ctx context.Context) error {
					ln := listenRsocket(ctx, t, path)
					defer ln.Close()
					defer context.AfterFunc(ctx, func() { ln.Close() })()
					c := startPreloaded(ctx, t, sends, p.name, p.client(path, portOfAddr(ln))...)
					conn, err := ln.Accept()
					if err != nil {
						return err
					}
					return transfer(ctx, c, conn)
				})
			})
			if p.server == nil {
				continue
			}
			t.Run(p.name+" server"+direction, func(t *testing.T) {
				vmtest.NoLeaks(t)
				ctx, cancel := context.WithTimeout(t.Context(), preloadLimit)
				defer cancel()
				host, port := vmtest.Hosts(t, 2)[0], newPort()
				listeners := host.Listeners(t)
				c := startPreloaded(ctx, t, sends, p.name, p.server(path, port)...)
				awaitServer(t, host, listeners, func() bool { return ctx.Err() == nil })
				d := rsocket.Dialer{CM: cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(netip.MustParseAddr(path.Client), 0))}}
				conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(path.Server, port))
				if err != nil {
					t.Fatalf("DialContext: %v", err)
				}
				if err := transfer(ctx, c, conn); err != nil {
					t.Errorf("transfer: %v", err)
				}
			})
		}
	}
}

// TestPreloadHTTP serves HTTP by net/http to ordinary C programs.
func TestPreloadHTTP(t *testing.T) {
	path := paths(t)[0]
	for name, args := range map[string][]string{
		"curl": {"-sS"},
		"wget": {"-q", "-O", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			vmtest.NoLeaks(t)
			whenRead(t, func(ctx context.Context) error {
				ln := listenRsocket(ctx, t, path)
				want := make([]byte, preloadSize)
				rand.Read(want)
				server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(want) })}
				go server.Serve(ln)
				defer server.Close()
				return startPreloaded(ctx, t, false, name, append(args, "http://"+ln.Addr().String()+"/")...).wait(want)
			})
		})
	}
}

// whenRead runs a transfer with a C client. It repeats the transfer if siw has not read the client's first message.
func whenRead(t *testing.T, transfer func(context.Context) error) {
	t.Helper()
	err := untilRead(t, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, preloadLimit)
		defer cancel()
		return transfer(ctx)
	})
	if err != nil {
		t.Errorf("transfer: %v", err)
	}
}

func listenRsocket(ctx context.Context, t *testing.T, path pairing.Path) net.Listener {
	t.Helper()
	ln, err := rsocket.Listen(ctx, "tcp", net.JoinHostPort(path.Server, "0"))
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	return ln
}

func portOfAddr(ln net.Listener) string {
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}

// preloadedProcess is a running program.
type preloadedProcess struct {
	in             []byte // standard input
	stdout, stderr bytes.Buffer
	ended          chan error
}

// preloadLibrary finds librspreload.so once, because the search takes seconds in the virtual machine.
var preloadLibrary = sync.OnceValues(func() ([]string, error) {
	return filepath.Glob("/usr/lib/*/rsocket/librspreload.so")
})

// startPreloaded starts a program. Its standard input is random or empty.
func startPreloaded(ctx context.Context, t *testing.T, input bool, name string, args ...string) *preloadedProcess {
	t.Helper()
	program, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is missing: %v", name, err)
	}
	library, err := preloadLibrary()
	if err != nil || len(library) != 1 {
		t.Fatalf("librspreload.so of Debian's librdmacm1 is missing: found %q, %v", library, err)
	}
	p := &preloadedProcess{ended: make(chan error, 1)}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+library[0])
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	if input {
		p.in = make([]byte, preloadSize)
		rand.Read(p.in)
		cmd.Stdin = bytes.NewReader(p.in)
	}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	go func() { p.ended <- cmd.Wait() }()
	return p
}

// wait waits for the end of the program and compares its output.
func (p *preloadedProcess) wait(want []byte) error {
	if err := <-p.ended; err != nil || !bytes.Equal(p.stdout.Bytes(), want) {
		return fmt.Errorf("the program ended with %v and %d bytes of output, want the %d bytes that were sent\n%s", err, p.stdout.Len(), len(want), &p.stderr)
	}
	return nil
}

// receiveFrom compares the data that a program sends with its input. It does not wait for the end of the
// program, which may poll its empty input for ever.
func receiveFrom(ctx context.Context, p *preloadedProcess, conn net.Conn) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })()
	got := make([]byte, len(p.in))
	if n, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, p.in) {
		return fmt.Errorf("ReadFull() = %d bytes, %v, want the %d bytes of the program's input", n, err, len(p.in))
	}
	return nil
}

// sendTo sends data to a program, ends the connection, and compares the data with the program's output.
func sendTo(ctx context.Context, p *preloadedProcess, conn net.Conn) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })()
	data := make([]byte, preloadSize)
	rand.Read(data)
	if n, err := conn.Write(data); err != nil {
		return fmt.Errorf("Write() = %d, %v, want %d bytes", n, err, len(data))
	}
	if err := conn.Close(); err != nil {
		return fmt.Errorf("Close: %v", err)
	}
	return p.wait(data)
}
