// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

// Sides has the two sides of a test. With rdmavm -vms each side runs in a virtual machine of its own. Otherwise both run
// in this process.
type Sides struct {
	// Listen listens on an address of the first host, and Dial connects from the second host.
	Listen func(ctx context.Context, address string) (net.Listener, error)
	Dial   func(ctx context.Context, address string) (net.Conn, error)
	// Serve starts the server. stop ends it and closes ln.
	Serve func(ln net.Listener) (stop func())
	// Call is the client. It ends before the server is stopped.
	Call func(address string)
}

// TwoVMs reports whether each host is a virtual machine of its own.
func TwoVMs() bool { return os.Getenv("RDMAVM_HOST") != "" }

// meetingPort is the port of the connection on which the two virtual machines agree. It is below the ports that the kernel
// assigns.
const meetingPort = 7470

// meetingTime bounds the wait for the other virtual machine, which may still run its previous test.
const meetingTime = 5 * time.Minute

// Run runs the sides. server is the address of the first host.
func (s *Sides) Run(t testing.TB, server netip.Addr) {
	t.Helper()
	meeting := netip.AddrPortFrom(server, meetingPort).String()
	switch os.Getenv("RDMAVM_HOST") {
	case "":
		address, stop := s.serve(t, server)
		defer stop()
		s.Call(address)
	case "0":
		s.serveOther(t, server, meeting)
	default:
		s.callOther(t, meeting)
	}
}

// serve starts the server and returns its address.
func (s *Sides) serve(t testing.TB, server netip.Addr) (address string, stop func()) {
	t.Helper()
	ln, err := s.Listen(t.Context(), netip.AddrPortFrom(server, 0).String())
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	return ln.Addr().String(), s.Serve(ln)
}

// serveOther serves the other virtual machine. It sends the address of the server, and stops when the client closes the
// connection.
func (s *Sides) serveOther(t testing.TB, server netip.Addr, meeting string) {
	t.Helper()
	address, stop := s.serve(t, server)
	defer stop()
	ln, err := s.Listen(t.Context(), meeting)
	if err != nil {
		t.Fatalf("Listen(%s): %v", meeting, err)
	}
	timer := time.AfterFunc(meetingTime, func() { ln.Close() })
	conn, err := ln.Accept()
	timer.Stop()
	ln.Close() // before the client runs, so that the client of the next test does not find this listener
	if err != nil {
		t.Fatalf("Accept of the other virtual machine: %v", err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, address+"\n"); err != nil {
		t.Fatalf("send the address: %v", err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("Read() at the end of the client = %v, want %v", err, io.EOF)
	}
}

// callOther runs the client against the server in the other virtual machine.
func (s *Sides) callOther(t testing.TB, meeting string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), meetingTime)
	defer cancel()
	var conn net.Conn
	for {
		var err error
		if conn, err = s.Dial(ctx, meeting); err == nil {
			break
		}
		select { // the server is not there yet
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("Dial of the other virtual machine: %v", err)
		}
	}
	defer conn.Close()
	address, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatalf("the server's address: %v", err)
	}
	s.Call(strings.TrimSpace(address))
}
