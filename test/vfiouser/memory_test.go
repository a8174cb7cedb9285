// SPDX-License-Identifier: Apache-2.0

//go:build linux

package vfiouser

import (
	"bytes"
	"math"
	"testing"

	"golang.org/x/sys/unix"
)

func mapBody(flags uint32, offset, addr, size uint64) []byte {
	return words(uint32(32), flags, offset, addr, size)
}

func unmapBody(addr, size uint64) []byte { return words(uint32(24), uint32(0), addr, size) }

func TestMemory(t *testing.T) {
	c := newClient(t)
	f := memfd(t, 1<<20)
	c.ok(cmdDMAMap, mapBody(3, 0x1000, 0x100000, 0x2000), int(f.Fd()))
	c.ok(cmdDMAMap, mapBody(3, 0, 0, 0x1000), int(f.Fd()))
	c.ok(cmdDMAMap, mapBody(3, 0, 0xfffc0000, 0x1000))                       // no memory
	c.ok(cmdDMAMap, mapBody(1, 0, 0xfffd0000, 0x1000), int(f.Fd()))          // read-only
	c.ok(cmdDMAMap, mapBody(3, 0x3000, 1<<63, 0x1000), int(f.Fd()))          // a high address
	c.ok(cmdDMAMap, mapBody(3, 0x4000, ^uint64(0xfff), 0x1000), int(f.Fd())) // the last page
	c.lock.Lock()
	defer c.lock.Unlock()
	m := c.server.Memory
	for _, tc := range []struct {
		addr uint64
		n    int
		file int64 // offset, or -1 if not mapped
	}{
		{0, 1, 0}, {0xfff, 1, 0xfff}, {0, 0x1000, 0}, {0x1000, 1, -1}, {0xfff, 2, -1},
		{0x100000, 0x2000, 0x1000}, {0x101fff, 1, 0x2fff}, {0x100000, 0x2001, -1}, {0xfffff, 2, -1},
		{0xfffc0000, 1, -1}, {0xfffd0000, 1, -1}, {1 << 63, 0x1000, 0x3000}, {1<<63 + 0xff8, 8, 0x3ff8},
		{^uint64(0), 1, 0x4fff}, {^uint64(0), 2, -1}, {^uint64(0xfff), 0x1000, 0x4000}, {0, -1, -1}, {0x100000, math.MaxInt, -1},
	} {
		b := m.Bytes(tc.addr, tc.n)
		if (b == nil) != (tc.file < 0) {
			t.Errorf("Bytes(%#x, %#x) = %d bytes", tc.addr, tc.n, len(b))
			continue
		}
		if b == nil {
			continue
		}
		if len(b) != tc.n || cap(b) != tc.n {
			t.Errorf("Bytes(%#x, %#x) = %d bytes with capacity %d", tc.addr, tc.n, len(b), cap(b))
		}
		b[0]++
		got := make([]byte, 1)
		f.ReadAt(got, tc.file)
		if got[0] != b[0] {
			t.Errorf("Bytes(%#x) is not the file's memory at %#x", tc.addr, tc.file)
		}
	}
}

func TestUnmap(t *testing.T) {
	c := newClient(t)
	f := memfd(t, 1<<20)
	c.ok(cmdDMAMap, mapBody(3, 0, 0x1000, 0x3000), int(f.Fd()))
	c.ok(cmdDMAMap, mapBody(3, 0, 0x4000, 0x1000))
	for name, b := range map[string][]byte{
		"a part":         unmapBody(0x1000, 0x1000),
		"the middle":     unmapBody(0x2000, 0x2000),
		"more":           unmapBody(0x1000, 0x4000),
		"nothing there":  unmapBody(0x8000, 0x1000),
		"nothing at all": unmapBody(0x1000, 0),
	} {
		if _, errno := c.call(cmdDMAUnmap, b); errno != unix.EINVAL {
			t.Errorf("%s: %v", name, errno)
		}
	}
	for _, b := range [][]byte{unmapBody(0x1000, 0x3000), unmapBody(0x4000, 0x1000)} {
		if got := c.ok(cmdDMAUnmap, b); !bytes.Equal(got, b) {
			t.Errorf("reply % x, want % x", got, b)
		}
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.server.Memory.Bytes(0x1000, 1) != nil || len(c.server.Memory.windows) != 0 {
		t.Error("memory is still mapped")
	}
}

func TestMapMistakes(t *testing.T) {
	c := newClient(t)
	f := memfd(t, 0x4000)
	fd := int(f.Fd())
	c.ok(cmdDMAMap, mapBody(3, 0, 0x10000, 0x2000), fd)
	for _, tc := range []struct {
		name string
		body []byte
		want unix.Errno
	}{
		{"the same again", mapBody(3, 0, 0x10000, 0x2000), unix.EEXIST},
		{"its end", mapBody(3, 0, 0x11000, 0x2000), unix.EEXIST},
		{"its beginning", mapBody(3, 0, 0xf000, 0x2000), unix.EEXIST},
		{"around it", mapBody(3, 0, 0xf000, 0x4000), unix.EEXIST},
		{"no size", mapBody(3, 0, 0, 0), unix.EINVAL},
		{"half a page", mapBody(3, 0, 0, 0x800), unix.EINVAL},
		{"half a page up", mapBody(3, 0, 0x800, 0x1000), unix.EINVAL},
		{"half a page in the file", mapBody(3, 0x800, 0, 0x1000), unix.EINVAL},
		{"address wraps", mapBody(3, 0, ^uint64(0xfff), 0x2000), unix.EINVAL},
		{"beyond the file", mapBody(3, 0x3000, 0, 0x2000), unix.EINVAL},
		{"far beyond the file", mapBody(3, 1<<63, 0, 0x1000), unix.EINVAL},
		{"everything", mapBody(3, 0, 0, ^uint64(0xfff)), unix.EINVAL},
		{"half a body", mapBody(3, 0, 0, 0x1000)[:24], unix.EINVAL},
	} {
		if _, errno := c.call(cmdDMAMap, tc.body, fd); errno != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, errno, tc.want)
		}
	}
	r, w := pipe(t)
	defer unix.Close(r)
	defer unix.Close(w)
	if _, errno := c.call(cmdDMAMap, mapBody(3, 0, 0, 0x1000), r); errno == 0 {
		t.Error("DMA_MAP of a pipe succeeded")
	}
	c.lock.Lock()
	have := len(c.server.Memory.windows)
	c.lock.Unlock()
	for i := have; i < maxWindows; i++ {
		c.ok(cmdDMAMap, mapBody(3, 0, 1<<32+uint64(i)<<12, 0x1000))
	}
	if _, errno := c.call(cmdDMAMap, mapBody(3, 0, 0, 0x1000)); errno != unix.ENOSPC {
		t.Errorf("DMA_MAP in excess of the limit = %v, want ENOSPC", errno)
	}
}

func pipe(t *testing.T) (r, w int) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatalf("unix.Pipe2: %v", err)
	}
	return p[0], p[1]
}
