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

// silent runs fn with a node whose peer says nothing, and expects that it gives up,
// and says why.
func silent(t *testing.T, says string, fn func(n *node) error) {
	t.Helper()
	var errs bytes.Buffer
	n := &node{Kind: RC, opt: &options{iters: 1, depth: 1, patience: 50 * time.Millisecond}, u: tool.NewUI("name", io.Discard, &errs)}
	if err := fn(n); err == nil {
		t.Error("no error from a silent peer")
	}
	if s := errs.String(); !strings.Contains(s, says) || !strings.Contains(s, "silent for 50ms") {
		t.Errorf("it says %q", s)
	}
}

// TestSilentPeer: a peer that takes the connection and then says nothing, or not all,
// does not hold either side up for ever.
func TestSilentPeer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			conn.Write([]byte("0000:0000")) // and no more
		}
	}()
	silent(t, "Couldn't read/write remote address", func(n *node) error {
		n.own = make([]oob.Address, 1)
		n.opt.server, n.opt.port = "127.0.0.1", ln.Addr().(*net.TCPAddr).Port
		return n.dial(t.Context())
	})

	port := freePort(t)
	go func() {
		// Addresses, and then no confirmation.
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
		t.Fatal(err)
	}
	defer dev.Close()
	for _, events := range []bool{false, true} {
		cq, err := dev.CreateCQ(verbs.CQConfig{NoEvents: !events})
		if err != nil {
			t.Fatal(err)
		}
		defer cq.Close()
		silent(t, "poll CQ failed", func(n *node) error {
			n.cq, n.opt.events = cq, events
			_, err := n.exchange(t.Context())
			return err
		})
	}
}

// freePort returns a TCP port that nobody listens to.
func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// dial connects to a port as soon as somebody listens.
func dial(t *testing.T, port int) net.Conn {
	for {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			t.Cleanup(func() { conn.Close() })
			return conn
		}
		select {
		case <-t.Context().Done():
			t.Error(err)
			runtime.Goexit()
		case <-time.After(time.Millisecond):
		}
	}
}

// TestStrangers: connections that send no addresses do not end a server that waits for its
// client, and do not keep it from the client.
func TestStrangers(t *testing.T) {
	for _, kind := range []Kind{RC, SRQ} {
		var errs bytes.Buffer
		n := &node{Kind: kind, opt: &options{port: freePort(t), patience: time.Minute}, u: tool.NewUI("name", io.Discard, &errs)}
		n.own = []oob.Address{{QPN: 17}}
		served := make(chan error, 1)
		go func() { served <- n.accept(t.Context()) }()
		dial(t, n.opt.port) // which says nothing
		garbage := dial(t, n.opt.port)
		garbage.Write(bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 1000))
		io.Copy(io.Discard, garbage) // until the server has closed it
		dial(t, n.opt.port).Close()
		all := slices.Clone(n.addresses())
		all[0].QPN = 18
		remote, err := oob.Active(t.Context(), dial(t, n.opt.port), all, nil)
		if err != nil || remote[0].QPN != 17 {
			t.Errorf("%s: Active = %v, %v, want QPN 17", kind.Name, remote, err)
		}
		if err := <-served; err != nil || n.remote[0].QPN != 18 {
			t.Errorf("%s: accept = %v, the client has %v", kind.Name, err, n.remote)
		}
		if s := errs.String(); !strings.Contains(s, "Couldn't read remote address") {
			t.Errorf("%s: it prints %q", kind.Name, s)
		}
	}
}

// TestPatient: as long as something moves, there is no end.
func TestPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps atomic.Int64
		ctx, cancel := patient(context.Background(), 200*time.Millisecond, &steps)
		for range 50 {
			steps.Add(1)
			time.Sleep(20 * time.Millisecond)
			if ctx.Err() != nil {
				t.Fatal(context.Cause(ctx))
			}
		}
		cancel()
		if context.Cause(ctx) != context.Canceled {
			t.Error(context.Cause(ctx))
		}
	})
}
