// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pingpong

import (
	"bytes"
	"context"
	"io"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"purerdma/cmd/internal/tool"
	"purerdma/oob"
	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// silent runs fn with a node whose peer is silent. It checks that fn fails with the reason.
func silent(t *testing.T, says string, fn func(n *node) error) {
	t.Helper()
	var errs bytes.Buffer
	n := &node{Kind: RC, opt: &options{iters: 1, depth: 1, patience: 50 * time.Millisecond}, u: tool.NewUI("name", io.Discard, &errs)}
	if err := fn(n); err == nil {
		t.Error("a node with a silent peer = nil, want an error")
	}
	if s := errs.String(); !strings.Contains(s, says) || !strings.Contains(s, "silent for 50ms") {
		t.Errorf("a node with a silent peer prints %q, want %q and the time limit", s, says)
	}
}

// TestSilentPeer checks that a peer that connects and then sends nothing or too little does not
// block either side forever.
func TestSilentPeer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			conn.Write([]byte("0000:0000")) // an incomplete address
		}
	}()
	silent(t, "Couldn't read/write remote address", func(n *node) error {
		n.own = make([]oob.Address, 1)
		n.opt.server, n.opt.port = "127.0.0.1", ln.Addr().(*net.TCPAddr).Port
		return n.dial(t.Context())
	})

	port := freePort(t)
	go func() {
		// Addresses without a confirmation.
		conn := dial(t, port)
		conn.Write([]byte("0000:000011:000001:" + strings.Repeat("0", 32) + "\x00"))
	}()
	silent(t, "Couldn't send/recv local address", func(n *node) error {
		n.own = make([]oob.Address, 1)
		n.opt.port = port
		return n.accept(t.Context())
	})

	host := verbs.Host{Drivers: []provider.Driver{rxe.Driver{}}, Kernel: uverbstest.New("rxe0")}
	dev, err := host.Open("rxe0")
	if err != nil {
		t.Fatalf("host.Open: %v", err)
	}
	defer dev.Close()
	for _, events := range []bool{false, true} {
		cq, err := dev.CreateCQ(verbs.CQConfig{NoEvents: !events})
		if err != nil {
			t.Fatalf("dev.CreateCQ: %v", err)
		}
		defer cq.Close()
		silent(t, "poll CQ failed", func(n *node) error {
			n.cq, n.opt.events = cq, events
			_, err := n.exchange(t.Context())
			return err
		})
	}
}

// freePort returns an unused TCP port.
func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// dial connects to a port as soon as there is a listener.
func dial(t *testing.T, port int) net.Conn {
	for {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			t.Cleanup(func() { conn.Close() })
			return conn
		}
		select {
		case <-t.Context().Done():
			t.Errorf("net.Dial: %v", err)
			runtime.Goexit()
		case <-time.After(time.Millisecond):
		}
	}
}

// TestStrangers checks that connections without addresses neither end a waiting server nor keep
// out its client.
func TestStrangers(t *testing.T) {
	for _, kind := range []Kind{RC, SRQ} {
		var errs bytes.Buffer
		n := &node{Kind: kind, opt: &options{port: freePort(t), patience: time.Minute}, u: tool.NewUI("name", io.Discard, &errs)}
		n.own = []oob.Address{{QPN: 17}}
		served := make(chan error, 1)
		go func() { served <- n.accept(t.Context()) }()
		dial(t, n.opt.port) // a silent connection
		garbage := dial(t, n.opt.port)
		garbage.Write(bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 1000))
		io.Copy(io.Discard, garbage) // wait until the server has closed it
		dial(t, n.opt.port).Close()
		all := slices.Clone(n.addresses())
		all[0].QPN = 18
		remote, err := oob.Active(t.Context(), dial(t, n.opt.port), all, nil)
		if err != nil || remote[0].QPN != 17 {
			t.Errorf("%s: Active = %v, %v, want QPN 17", kind.Name, remote, err)
		}
		if err := <-served; err != nil || n.remote[0].QPN != 18 {
			t.Errorf("%s: accept = %v with the client's addresses %v, want QPN 18", kind.Name, err, n.remote)
		}
		if s := errs.String(); !strings.Contains(s, "Couldn't read remote address") {
			t.Errorf("%s: the server prints %q, want the reason for closing", kind.Name, s)
		}
	}
}

// TestPatient checks that progress keeps the context alive.
func TestPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps atomic.Int64
		ctx, cancel := patient(context.Background(), 200*time.Millisecond, &steps)
		for range 50 {
			steps.Add(1)
			time.Sleep(20 * time.Millisecond)
			if ctx.Err() != nil {
				t.Fatalf("the context ended with %v in spite of progress", context.Cause(ctx))
			}
		}
		cancel()
		if context.Cause(ctx) != context.Canceled {
			t.Errorf("Cause = %v, want context.Canceled", context.Cause(ctx))
		}
	})
}
