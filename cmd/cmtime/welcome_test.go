// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"purerdma/cmd/internal/tool"
)

// welcomeAt starts to gather n leaves, and returns the address. refused gets each
// connection that was closed.
func welcomeAt(t *testing.T, ctx context.Context, n int, patience time.Duration) (addr string, refused <-chan error, gathered func() ([]leaf, error)) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1000)
	w := &welcome{ln: ln, patience: patience, refused: func(_ net.Conn, err error) { closed <- err }}
	var leaves []leaf
	done := make(chan struct{})
	go func() {
		defer close(done)
		leaves, err = w.gather(ctx, n)
	}()
	return ln.Addr().String(), closed, func() ([]leaf, error) {
		t.Helper()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Fatal("gather has not returned")
		}
		for _, l := range leaves {
			t.Cleanup(func() { l.conn.Close() })
		}
		return leaves, err
	}
}

// connectTo connects, and sends what it is given.
func connectTo(t *testing.T, addr string, hello []byte) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := conn.Write(hello); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestStrangersAreNoPeers: connections that send nothing, too little, or another message
// neither count as peers nor hold the run.
func TestStrangersAreNoPeers(t *testing.T) {
	addr, refused, gathered := welcomeAt(t, t.Context(), 2, 200*time.Millisecond)
	hello := peer{}.append(nil)
	wrong := bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 20)
	silent := connectTo(t, addr, nil)
	connectTo(t, addr, hello[:peerSize-1])
	connectTo(t, addr, wrong)
	connectTo(t, addr, nil).Close()
	var texts []string
	for range 4 {
		texts = append(texts, (<-refused).Error())
	}
	slices.Sort(texts)
	for i, want := range []string{"EOF", "it has the role", "i/o timeout", "i/o timeout"} {
		if !strings.Contains(texts[i], want) {
			t.Errorf("refused because of %q, want %q", texts[i], want)
		}
	}
	if n, err := silent.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("the silent connection reads %d, %v, want EOF", n, err)
	}
	connectTo(t, addr, hello)
	connectTo(t, addr, hello)
	if leaves, err := gathered(); len(leaves) != 2 || err != nil {
		t.Errorf("gather = %d leaves, %v, want 2", len(leaves), err)
	}
}

// TestSilentStrangersFirst: many connections that send nothing do not keep out the peers,
// and are closed when all peers are there.
func TestSilentStrangersFirst(t *testing.T) {
	addr, _, gathered := welcomeAt(t, t.Context(), 1, time.Hour)
	var strangers []net.Conn
	for range maxStrangers {
		strangers = append(strangers, connectTo(t, addr, nil))
	}
	connectTo(t, addr, peer{}.append(nil))
	if leaves, err := gathered(); len(leaves) != 1 || err != nil {
		t.Fatalf("gather = %d leaves, %v, want 1", len(leaves), err)
	}
	for _, s := range strangers {
		s.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := s.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a stranger reads %v, want that it was closed", err)
		}
	}
}

// TestGatherEnds: waiting for the peers ends with the context.
func TestGatherEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	addr, _, gathered := welcomeAt(t, ctx, 2, time.Hour)
	connectTo(t, addr, nil)
	cancel()
	if leaves, err := gathered(); len(leaves) != 0 || err == nil {
		t.Errorf("gather = %d leaves, %v, want an error", len(leaves), err)
	}
}

// TestExchange: a root and its leaves tell each other of themselves and stay in step, while
// strangers connect.
// discard is a UI that prints to nobody.
func discard() *tool.UI { return &tool.UI{Out: new(bytes.Buffer), Err: new(bytes.Buffer)} }

func TestExchange(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	connectTo(t, addr, nil)
	const peers = 4
	got := make([][]peer, peers)
	var wg sync.WaitGroup
	run := func(i int, o *oob) {
		wg.Go(func() {
			defer o.close()
			var err error
			if got[i], err = o.exchange(t.Context(), peer{}, peers, discard()); err != nil {
				t.Errorf("peer %d: %v", i, err)
				return
			}
			for step := range meshStep(3) {
				if err := o.sync(step); err != nil {
					t.Errorf("peer %d, step %d: %v", i, step, err)
				}
			}
		})
	}
	run(0, &oob{root: true, ln: ln})
	for i := 1; i < peers; i++ {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		run(i, &oob{conns: []net.Conn{conn}})
	}
	wg.Wait()
	for i, list := range got {
		if len(list) != peers {
			t.Errorf("peer %d knows %d peers, want %d", i, len(list), peers)
		}
	}
}
