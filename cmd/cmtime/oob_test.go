// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"purerdma/cmd/internal/tool"
)

// discard returns a UI whose output is ignored.
func discard() *tool.UI { return &tool.UI{Out: new(bytes.Buffer), Err: new(bytes.Buffer)} }

// TestHello checks that readHello accepts hellos and rejects other data.
func TestHello(t *testing.T) {
	read := func(sent []byte) error {
		a, b := net.Pipe()
		defer b.Close()
		go func() {
			defer a.Close()
			a.Write(sent)
		}()
		_, err := readHello(b)
		return err
	}
	hello := peer{}.append(nil)
	if err := read(hello); err != nil {
		t.Errorf("read: %v", err)
	}
	for name, b := range map[string][]byte{
		"nothing": nil, "less": hello[:peerSize-1], "another protocol": []byte(strings.Repeat("GET / HTTP/1.1\r\n", 20)),
	} {
		if read(b) == nil {
			t.Errorf("readHello(%s) = nil, want an error", name)
		}
	}
}

// TestExchange checks that a root and its guests exchange their addresses and stay in step while
// strangers connect.
func TestExchange(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	addr := ln.Addr().String()
	stranger, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("net.Dial: %v", err)
	}
	defer stranger.Close()
	const peers = 4
	got := make([][]peer, peers)
	var wg sync.WaitGroup
	run := func(i int, o *oob) {
		wg.Go(func() {
			defer o.close()
			var err error
			if got[i], err = o.exchange(t.Context(), peer{}, peers, discard()); err != nil {
				t.Errorf("exchange of peer %d = %v", i, err)
				return
			}
			for step := range meshStep(3) {
				if err := o.sync(step); err != nil {
					t.Errorf("sync of peer %d at step %d = %v", i, step, err)
				}
			}
		})
	}
	run(0, &oob{root: true, ln: ln, limit: time.Minute})
	for i := 1; i < peers; i++ {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatalf("net.Dial: %v", err)
		}
		run(i, &oob{conns: []net.Conn{conn}, limit: time.Minute})
	}
	wg.Wait()
	for i, list := range got {
		if len(list) != peers {
			t.Errorf("exchange of peer %d returned %d peers, want %d", i, len(list), peers)
		}
	}
}

// TestSilentPeer has peers that stay connected but do not reach the next step. Neither a leaf nor a root waits for
// them without limit, and the error names the peer, the step and the limit.
func TestSilentPeer(t *testing.T) {
	for root, waited := range map[bool]string{true: "20ms", false: "40ms"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("net.Listen: %v", err)
		}
		defer ln.Close()
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("net.Dial: %v", err)
		}
		silent, err := ln.Accept()
		if err != nil {
			t.Fatalf("ln.Accept: %v", err)
		}
		defer silent.Close()
		o := &oob{conns: []net.Conn{conn}, root: root, limit: 20 * time.Millisecond}
		defer o.close()
		err = o.sync(meshInit)
		want := "peer " + conn.RemoteAddr().String() + ` is not at step "init qp" after ` + waited
		if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), want) {
			t.Errorf("sync with root %v = %v, want %q", root, err, want)
		}
		// The limit is of one sync, not of the connection.
		time.Sleep(50 * time.Millisecond)
		if _, err := silent.Write([]byte{byte(meshConnect)}); err != nil {
			t.Fatalf("silent.Write: %v", err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Errorf("read after sync: %v", err)
		}
	}
}

// TestSyncTime checks the time limit for the other peers.
func TestSyncTime(t *testing.T) {
	for _, tc := range []struct {
		opt  meshOptions
		want time.Duration
	}{
		{meshOptions{conns: 100, peers: 2, retries: 2, timeout: 2 * time.Second}, connectTime + 200*connTime + 12*time.Second},
		{meshOptions{conns: maxConns, peers: maxPeers, retries: 1 << 20, timeout: maxTimeout * time.Millisecond}, maxSyncTime},
	} {
		if got := tc.opt.syncTime(); got != tc.want {
			t.Errorf("syncTime of %+v = %v, want %v", tc.opt, got, tc.want)
		}
	}
}
