// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestInfo(t *testing.T) {
	msg := info{addr: 0x0102030405060708, rkey: 0x090a0b0c, size: 0x0d0e0f10}
	b := make([]byte, infoSize)
	msg.encode(b)
	if got := hex.EncodeToString(b); got != "0102030405060708090a0b0c0d0e0f10" {
		t.Errorf("encode(%+v) = %s", msg, got)
	}
	if got := decodeInfo(b); got != msg {
		t.Errorf("decodeInfo = %+v, want %+v", got, msg)
	}
}

func TestSource(t *testing.T) {
	for _, tc := range []struct {
		size   uint32
		buffer int
		ok     bool
	}{
		{1, 64, true}, {64, 64, true}, {0, 64, false}, {65, 64, false}, {1<<32 - 1, 65535, false}, {1 << 31, 65535, false},
	} {
		n, err := info{size: tc.size}.source(tc.buffer)
		if (err == nil) != tc.ok || tc.ok && n != int(tc.size) {
			t.Errorf("source of %d bytes into %d = %d, %v, want success %t", tc.size, tc.buffer, n, err, tc.ok)
		}
	}
}

func TestSink(t *testing.T) {
	for _, tc := range []struct {
		size uint32
		n    int
		ok   bool
	}{
		{64, 64, true}, {65, 64, true}, {1<<32 - 1, 64, true}, {63, 64, false}, {0, 1, false},
	} {
		if err := (info{size: tc.size}).sink(tc.n); (err == nil) != tc.ok {
			t.Errorf("sink of %d bytes into %d = %v, want success %t", tc.n, tc.size, err, tc.ok)
		}
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{"abc\x00": "abc\x00", "a\x00bc": "a\x00", "\x00": "\x00"} {
		if got, err := text([]byte(in)); err != nil || string(got) != want {
			t.Errorf("text(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "abc"} {
		if got, err := text([]byte(in)); err == nil {
			t.Errorf("text(%q) = %q, want an error", in, got)
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"abc\x00def":       "abc",
		"abc":              "abc",
		"":                 "",
		"A~ z":             "A~ z",
		"a\x1b[2Jb\x00":    `a\x1b[2Jb`,
		"\xff\x7f\n":       `\xff\x7f\x0a`,
		"ok\x01ok\x02\x00": `ok\x01ok\x02`,
	} {
		if got := printable([]byte(in)); string(got) != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestFill compares with the data that the C program prints.
func TestFill(t *testing.T) {
	alphabet := "ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz"
	for _, tc := range []struct {
		n, size int
		want    string
	}{
		{0, 64, "rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqr"},
		{1, 64, "rdma-ping-1: BCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrs"},
		{57, 64, "rdma-ping-57: zABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnop"},
		{58, 64, "rdma-ping-58: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopq"},
		{0, 23, "rdma-ping-0: ABCDEFGHI"},
		{1<<31 - 1, 23, "rdma-ping-2147483647: "},
		{math.MaxInt, 23, fmt.Sprintf("rdma-ping-%d: ", math.MaxInt)[:22]},
		{0, 1, ""},
		{0, 13 + 2*58 + 1, "rdma-ping-0: " + alphabet + alphabet},
	} {
		b := bytes.Repeat([]byte{'#'}, tc.size)
		fill(b, tc.n)
		if got := string(b); got != tc.want+"\x00" {
			t.Errorf("fill for ping %d of %d bytes =\n%q\nwant\n%q", tc.n, tc.size, got, tc.want)
		}
	}
}

// FuzzInfo checks that the limits of a peer's message are validated.
func FuzzInfo(f *testing.F) {
	f.Add(make([]byte, infoSize), 64)
	f.Add([]byte(strings.Repeat("\xff", infoSize)), 65535)
	f.Fuzz(func(t *testing.T, b []byte, buffer int) {
		if len(b) < infoSize || buffer < 0 {
			return
		}
		msg := decodeInfo(b)
		again := make([]byte, infoSize)
		msg.encode(again)
		if !bytes.Equal(b[:infoSize], again) {
			t.Fatalf("encode(decodeInfo(%x)) = %x", b, again)
		}
		if n, err := msg.source(buffer); err == nil && (n <= 0 || n > buffer) {
			t.Fatalf("source accepts %d bytes for a buffer of %d", n, buffer)
		}
	})
}
