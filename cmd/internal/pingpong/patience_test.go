// SPDX-License-Identifier: Apache-2.0

//go:build linux

package pingpong

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
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
	start := time.Now()
	err := fn(n)
	if took := time.Since(start); err == nil || took > 5*time.Second {
		t.Errorf("%v after %v", err, took)
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

	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	go func() {
		for range 500 {
			if conn, err := net.Dial("tcp", free.Addr().String()); err == nil {
				defer conn.Close()
				<-t.Context().Done()
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	silent(t, "Couldn't read remote address", func(n *node) error {
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

// TestPatient: as long as something moves, there is no end.
func TestPatient(t *testing.T) {
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
}
