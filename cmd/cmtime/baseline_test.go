// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

const baselineConns = 5

// baselineMesh returns a mesh for -S whose peers meet at 127.0.0.1. Port 0 stands for a free
// port, which the returned mesh's options contain if it is the root.
func baselineMesh(ctx context.Context, t *testing.T, port string, listen bool) *mesh {
	t.Helper()
	opt := &meshOptions{
		source: "127.0.0.1", controller: "127.0.0.1", port: port, conns: baselineConns,
		threads: 2, listen: listen, sockets: true,
	}
	m := &mesh{opt: opt, u: discard(), work: make(chan func(), queued)}
	t.Cleanup(m.startWorkers())
	var err error
	if m.oob, err = meet(ctx, opt, m.u); err != nil {
		t.Fatalf("meet: %v", err)
	}
	t.Cleanup(m.oob.close)
	if m.oob.root {
		opt.port = strconv.Itoa(m.oob.ln.Addr().(*net.TCPAddr).Port)
	}
	return m
}

// joinedBaseline joins the peers and runs the baseline.
func (m *mesh) joinedBaseline(ctx context.Context) error {
	if err := m.oob.joined(ctx, m.opt.listen, m.u); err != nil {
		return err
	}
	return m.baseline(ctx)
}

// TestBaselineEarlySockets connects the leaf and all of its baseline sockets before the root
// accepts the leaf. The root has to accept the sockets, because rdma-core's client does not
// connect again.
func TestBaselineEarlySockets(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	server := baselineMesh(ctx, t, "0", true)
	for range 1 + baselineConns {
		s, err := net.Dial("tcp", server.oob.ln.Addr().String())
		if err != nil {
			t.Fatalf("net.Dial: %v", err)
		}
		defer s.Close()
	}
	if err := server.joinedBaseline(ctx); err != nil {
		t.Errorf("baseline of the server = %v, want nil", err)
	}
}

// TestBaselineStrangers connects other hosts to the root before the leaf and between its sockets.
func TestBaselineStrangers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	server := baselineMesh(ctx, t, "0", true)
	connect := func(host byte) {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}}
		s, err := d.DialContext(ctx, "tcp", server.oob.ln.Addr().String())
		if err != nil {
			t.Fatalf("DialContext from 127.0.0.%d: %v", host, err)
		}
		t.Cleanup(func() { s.Close() })
	}
	connect(2)
	connect(3)
	connect(1)
	for range baselineConns {
		connect(1)
		connect(2)
	}
	if err := server.joinedBaseline(ctx); err != nil {
		t.Errorf("baseline of the server = %v, want nil", err)
	}
	if got := hostOf(server.oob.conns[0]).String(); got != "127.0.0.1" {
		t.Errorf("hostOf() of the leaf = %s, want 127.0.0.1", got)
	}
	for i, c := range server.state.conns {
		if got := hostOf(c.sock).String(); got != "127.0.0.1" {
			t.Errorf("hostOf() of socket %d = %s, want 127.0.0.1", i, got)
		}
	}
}

// TestBaselineSockets runs the baseline between two programs.
func TestBaselineSockets(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	server := baselineMesh(ctx, t, "0", true)
	client := baselineMesh(ctx, t, server.opt.port, false)
	served := make(chan error, 1)
	go func() { served <- server.joinedBaseline(ctx) }()
	if err := client.joinedBaseline(ctx); err != nil {
		t.Errorf("baseline of the client = %v, want nil", err)
	}
	if err := <-served; err != nil {
		t.Errorf("baseline of the server = %v, want nil", err)
	}
}

// TestBaselineReset checks that a client connects its sockets again which were in the queue of
// the meeting's listener. The server closes that listener and listens again, as rdma-core's
// server does.
func TestBaselineReset(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	meeting, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	addr := meeting.Addr().String()
	client := baselineMesh(ctx, t, strconv.Itoa(meeting.Addr().(*net.TCPAddr).Port), false)
	for range baselineConns {
		client.state.conns = append(client.state.conns, new(meshConn))
	}
	defer client.hangUp()
	if err := client.connectSockets(ctx, addr); err != nil {
		t.Fatalf("client.connectSockets: %v", err)
	}
	meeting.Close()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer ln.Close()
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	served := make(chan error, 1)
	go func() {
		for range baselineConns {
			s, err := ln.Accept()
			if err != nil {
				served <- err
				return
			}
			defer s.Close()
		}
		served <- nil
	}()
	if err := client.awaitServer(ctx, addr); err != nil {
		t.Errorf("awaitServer() = %v, want nil", err)
	}
	if err := <-served; err != nil {
		t.Errorf("accept of the server = %v, want nil", err)
	}
}

// TestBaselineLostClient checks that the server fails if the client ends before it has connected
// all of its sockets.
func TestBaselineLostClient(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	server := baselineMesh(ctx, t, "0", true)
	for range baselineConns { // the leaf and all sockets but one
		s, err := net.Dial("tcp", server.oob.ln.Addr().String())
		if err != nil {
			t.Fatalf("net.Dial: %v", err)
		}
		s.Close()
	}
	if err := server.oob.joined(ctx, true, discard()); err != nil {
		t.Fatalf("server.oob.joined: %v", err)
	}
	for range baselineConns {
		server.state.conns = append(server.state.conns, new(meshConn))
	}
	defer server.hangUp()
	err := server.baselineServer(ctx, time.Minute, time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), " of 5: peer 127.0.0.1:") {
		t.Errorf("baselineServer() = %v, want a missing socket of a peer that has ended", err)
	}
}

// TestBaselineSilentPeer has a client join and connect one socket, but not the others. The server must not wait
// for these without limit, whether it is the root or not.
func TestBaselineSilentPeer(t *testing.T) {
	for _, root := range []bool{true, false} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		first := baselineMesh(ctx, t, "0", root)
		second := baselineMesh(ctx, t, first.opt.port, !root)
		server, client := first, second
		if !root {
			server, client = second, first
			if err := client.oob.joined(ctx, false, client.u); err != nil {
				t.Fatalf("joined: %v", err)
			}
			client.oob.ln.Close() // the server listens at its address
		}
		connected := make(chan error, 1)
		go func() {
			s, err := dialSocket(ctx, net.JoinHostPort("127.0.0.1", server.opt.port))
			if err == nil {
				t.Cleanup(func() { s.Close() })
			}
			connected <- err
		}()
		if root {
			if err := server.oob.joined(ctx, true, server.u); err != nil {
				t.Fatalf("joined: %v", err)
			}
		}
		for range baselineConns {
			server.state.conns = append(server.state.conns, new(meshConn))
		}
		defer server.hangUp()
		err := server.baselineServer(ctx, 200*time.Millisecond, time.Minute)
		if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), " of 5: peer 127.0.0.1") {
			t.Errorf("baselineServer() = %v, want a missing socket of 127.0.0.1", err)
		}
		if err := <-connected; err != nil {
			t.Errorf("dialSocket: %v", err)
		}
	}
}
