// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import (
	"bytes"
	"testing"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// quirky enables quirks of both cards until the test ends. They are exact doorbells, receive
// counters modulo the queue's size, and no entry at the end of a resized CQ's old ring.
func quirky(t *testing.T, quirks ...any) {
	t.Helper()
	for _, h := range vmtest.Hosts(t, 2) {
		h.Fault(t, append([]any{"quirks"}, quirks...)...)
		t.Cleanup(func() { h.Fault(t, "quirks", 0, 0, 0) })
	}
}

// messages sends n messages of 1 to 64 bytes to the server, one after another, and checks each.
func (l *link) messages(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		size := 1 + i%64
		if err := l.server.PostRecv(uint64(i), l.remote.Slice(0, 64)); err != nil {
			t.Fatalf("l.server.PostRecv: %v", err)
		}
		want := bytes.Repeat([]byte{byte(i + 1)}, size)
		copy(l.local.Bytes(), want)
		if err := l.client.Send(within(t), l.local.Slice(0, size)); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		wc, err := l.server.WaitRecv(within(t))
		if err != nil || wc.ID != uint64(i) || wc.ByteLen != uint32(size) || !bytes.Equal(l.remote.Bytes()[:size], want) {
			t.Fatalf("message %d is % x, %+v, %v", i, l.remote.Bytes()[:size], wc, err)
		}
	}
}

// TestExactDoorbells checks that each doorbell only applies to its own request.
func TestExactDoorbells(t *testing.T) {
	quirky(t, 1, 0, 0)
	l := newLink(t)
	l.messages(t, 300)
	if err := l.write(t, 7); err != nil {
		t.Errorf("l.write: %v", err)
	}
}

// TestResizeWithoutEnd omits the entry at the end of a resized CQ's old ring.
func TestResizeWithoutEnd(t *testing.T) {
	quirky(t, 0, 0, 1)
	l := newLink(t)
	for i, entries := range []int{1000, 200, 3000} {
		l.messages(t, 20)
		for _, cq := range []*verbs.CQ{l.client.QP().SendCQ(), l.server.QP().RecvCQ()} {
			if err := cq.Resize(entries); err != nil {
				t.Fatalf("Resize %d to %d entries: %v", i, entries, err)
			}
		}
	}
	l.messages(t, 100)
}
