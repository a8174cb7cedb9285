// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"testing"

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
	run(0, &oob{root: true, ln: ln})
	for i := 1; i < peers; i++ {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatalf("net.Dial: %v", err)
		}
		run(i, &oob{conns: []net.Conn{conn}})
	}
	wg.Wait()
	for i, list := range got {
		if len(list) != peers {
			t.Errorf("exchange of peer %d returned %d peers, want %d", i, len(list), peers)
		}
	}
}
