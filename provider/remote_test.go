// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"bytes"
	"encoding"
	"errors"
	"math"
	"syscall"
	"testing"
)

var (
	_ encoding.BinaryMarshaler   = RemoteMemory{}
	_ encoding.BinaryAppender    = RemoteMemory{}
	_ encoding.BinaryUnmarshaler = (*RemoteMemory)(nil)
)

func TestRemoteMemoryEncoding(t *testing.T) {
	r := RemoteMemory{Addr: 0x0102030405060708, Length: 0x1112131415161718, RKey: 0x21222324}
	const want = "\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x15\x16\x17\x18\x21\x22\x23\x24"
	if b, err := r.MarshalBinary(); string(b) != want || err != nil {
		t.Errorf("MarshalBinary() = %x, %v, want %x", b, err, want)
	}
	if b, err := r.AppendBinary([]byte("before")); string(b) != "before"+want || err != nil {
		t.Errorf("AppendBinary() = %x, %v, want %x", b, err, "before"+want)
	}
	var got RemoteMemory
	if err := got.UnmarshalBinary([]byte(want)); got != r || err != nil {
		t.Errorf("UnmarshalBinary() = %+v, %v, want %+v", got, err, r)
	}
}

// TestRemoteMemoryUnmarshal decodes encodings that a hostile peer may send.
func TestRemoteMemoryUnmarshal(t *testing.T) {
	encode := func(addr, length uint64) []byte {
		b, _ := RemoteMemory{Addr: addr, Length: length, RKey: 1}.MarshalBinary()
		return b
	}
	for name, tc := range map[string]struct {
		data []byte
		want error
	}{
		"nothing":             {nil, syscall.EINVAL},
		"19 bytes":            {make([]byte, 19), syscall.EINVAL},
		"21 bytes":            {make([]byte, 21), syscall.EINVAL},
		"all ones":            {bytes.Repeat([]byte{0xff}, 20), syscall.EINVAL},
		"overflow by 1":       {encode(math.MaxUint64, 1), syscall.EINVAL},
		"overflow of the sum": {encode(1<<63, 1<<63), syscall.EINVAL},
		"the last address":    {encode(math.MaxUint64, 0), nil},
		"all memory":          {encode(0, math.MaxUint64), nil},
		"zeros":               {make([]byte, 20), nil},
	} {
		before := RemoteMemory{Addr: 7, Length: 8, RKey: 9}
		r := before
		err := r.UnmarshalBinary(tc.data)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: UnmarshalBinary() = %v, want %v", name, err, tc.want)
		}
		if err != nil && r != before {
			t.Errorf("%s: it left %+v, want %+v", name, r, before)
		}
	}
}

func FuzzRemoteMemory(f *testing.F) {
	f.Add(make([]byte, RemoteMemoryLen), 0, 0)
	f.Add(bytes.Repeat([]byte{0x7f}, RemoteMemoryLen), math.MaxInt, 1)
	f.Fuzz(func(t *testing.T, data []byte, off, n int) {
		var r RemoteMemory
		if r.UnmarshalBinary(data) != nil {
			return
		}
		if b, _ := r.MarshalBinary(); !bytes.Equal(b, data) {
			t.Fatalf("MarshalBinary() = %x, want %x", b, data)
		}
		if off < 0 || n < 0 || uint64(off)+uint64(n) > r.Length {
			return
		}
		if s := r.Slice(off, n); s.Addr < r.Addr || s.Addr+s.Length > r.Addr+r.Length {
			t.Errorf("Slice(%d, %d) of %v = %v", off, n, r, s)
		}
	})
}

func TestRemoteMemorySlice(t *testing.T) {
	r := RemoteMemory{Addr: 1000, Length: 100, RKey: 5}
	for _, tc := range []struct {
		off, n int
		want   RemoteMemory // zero: it panics
	}{
		{0, 100, r},
		{40, 8, RemoteMemory{Addr: 1040, Length: 8, RKey: 5}},
		{100, 0, RemoteMemory{Addr: 1100, RKey: 5}},
		{0, 101, RemoteMemory{}},
		{99, 2, RemoteMemory{}},
		{101, 0, RemoteMemory{}},
		{-1, 1, RemoteMemory{}},
		{1, -1, RemoteMemory{}},
		{math.MaxInt, math.MaxInt, RemoteMemory{}},
	} {
		func() {
			defer func() {
				if p := recover(); (p != nil) != (tc.want == RemoteMemory{}) {
					t.Errorf("Slice(%d, %d) panics with %v", tc.off, tc.n, p)
				}
			}()
			if got := r.Slice(tc.off, tc.n); got != tc.want {
				t.Errorf("Slice(%d, %d) = %+v, want %+v", tc.off, tc.n, got, tc.want)
			}
		}()
	}
}

func TestRemoteMemoryString(t *testing.T) {
	r := RemoteMemory{Addr: 0x1000, Length: 64, RKey: 0xabcdef}
	if got, want := r.String(), "64 bytes of remote memory at 0x1000"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}
