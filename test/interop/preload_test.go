// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
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
	name   string
	args   func(path pairing.Path, port string) []string // arguments of the client
	duplex bool                                          // whether it ends each direction by itself
}

// preloadedPrograms are clients. As servers, some of them use select, which librspreload breaks for accepted
// connections (docs/reference/driver-faults.md).
var preloadedPrograms = []preloaded{
	{"nc.traditional",
		func(p pairing.Path, port string) []string { return []string{"-n", "-s", p.Client, p.Server, port} },
		false,
	},
	{"ncat",
		func(p pairing.Path, port string) []string { return []string{"-n", "-s", p.Client, p.Server, port} },
		false,
	},
	// -t bounds the second direction after the end of the first.
	{"socat",
		func(p pairing.Path, port string) []string {
			return []string{"-t", "60", "-", "TCP4:" + p.Server + ":" + port + ",bind=" + p.Client}
		},
		true,
	},
}

// preloadLimit bounds the start of a program and its transfers.
const preloadLimit = 2 * time.Minute

// preloadSize is the size of the exchanged data in bytes. It is larger than the buffers of both sides.
const preloadSize = 1_000_003

// preloadedTransfers are the directions of the data from the view of the C program.
var preloadedTransfers = []struct {
	name          string
	sends, duplex bool
	transfer      func(context.Context, *preloadedProcess, net.Conn) error
}{
	{"receives", false, false, sendTo},
	{"sends", true, false, receiveFrom},
	{"sends and receives", true, true, exchange},
}

// TestPreload transfers data to and from ordinary C clients.
func TestPreload(t *testing.T) {
	path := paths(t)[0]
	for _, p := range preloadedPrograms {
		for _, d := range preloadedTransfers {
			if d.duplex && !p.duplex {
				continue
			}
			t.Run(p.name+" "+d.name, func(t *testing.T) {
				vmtest.NoLeaks(t)
				mustTransfer(t, func(ctx context.Context) error {
					ln := listenRsocket(ctx, t, path)
					defer ln.Close()
					defer context.AfterFunc(ctx, func() { ln.Close() })()
					c := startPreloaded(ctx, t, d.sends, p.name, p.args(path, portOfAddr(ln))...)
					conn, err := ln.Accept()
					if err != nil {
						return err
					}
					return d.transfer(ctx, c, conn)
				})
			})
		}
	}
}

// mustTransfer runs a transfer with a C program. It repeats the transfer if it met a fault of siw.
func mustTransfer(t *testing.T, transfer func(context.Context) error) {
	t.Helper()
	err := repeatFaults(t, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, preloadLimit)
		defer cancel()
		return transfer(ctx)
	})
	if err != nil {
		t.Errorf("transfer: %v", err)
	}
}

// preloadDialer returns a function that connects to a C server as soon as the server listens. A server that uses
// rdma-core's rsockets sends credits as soon as it has accepted.
func preloadDialer(path pairing.Path) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := rsocket.Dialer{CM: cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(netip.MustParseAddr(path.Client), 0))}}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		for {
			conn, err := d.DialContext(ctx, network, address)
			switch {
			case vmtest.Driver() == "siw" && errors.Is(err, syscall.EINVAL):
				return nil, fmt.Errorf("%w\n%w", errOvertaken, err)
			case !errors.Is(err, syscall.ECONNREFUSED) || ctx.Err() != nil:
				return conn, err
			}
			time.Sleep(startPoll)
		}
	}
}

// startPoll is the time between two attempts to connect to a server that starts.
const startPoll = 50 * time.Millisecond

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
	cmd := preloadedCommand(ctx, t, name, args...)
	var in []byte
	if input {
		in = make([]byte, preloadSize)
		rand.Read(in)
		cmd.Stdin = openFile(t, in)
	}
	return startCommand(t, cmd, in)
}

// preloadedCommand returns a command that runs a program with librspreload, and kills it when ctx ends.
func preloadedCommand(ctx context.Context, t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is missing: %v", name, err)
	}
	library, err := preloadLibrary()
	if err != nil || len(library) != 1 {
		t.Fatalf("librspreload.so of Debian's librdmacm1 is missing: found %q, %v", library, err)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+library[0])
	cmd.WaitDelay = time.Second
	return cmd
}

// startCommand starts a command whose standard input is in.
func startCommand(t *testing.T, cmd *exec.Cmd, in []byte) *preloadedProcess {
	t.Helper()
	p := &preloadedProcess{in: in, ended: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("cmd.Start: %v", err)
	}
	go func() { p.ended <- cmd.Wait() }()
	return p
}

// openFile opens a file with a content, for reading. It is closed when the test ends. librspreload's select does not
// report the end of a pipe.
func openFile(t *testing.T, content []byte) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatalf("os.Open: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	return f
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

// exchange sends data to a program while it receives the program's input, and compares both. It reads the end of the
// program's direction before it ends its own, because siw can lose the last bytes before a close
// (docs/reference/driver-faults.md).
func exchange(ctx context.Context, p *preloadedProcess, conn net.Conn) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })()
	data := make([]byte, preloadSize)
	rand.Read(data)
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(data)
		sent <- err
	}()
	got, err := io.ReadAll(conn)
	if err != nil || !bytes.Equal(got, p.in) {
		err = fmt.Errorf("ReadAll() = %d bytes, %v, want the %d bytes of the program's input", len(got), err, len(p.in))
	}
	if err := errors.Join(err, <-sent); err != nil {
		return err
	}
	if err := conn.(*rsocket.Conn).CloseWrite(); err != nil {
		return fmt.Errorf("CloseWrite: %v", err)
	}
	return p.wait(data)
}
