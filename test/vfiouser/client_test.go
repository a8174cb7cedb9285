// SPDX-License-Identifier: Apache-2.0

//go:build linux

package vfiouser

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/test/pci"
)

// A client is the other side of a Server, which runs in the test's process.
type client struct {
	t      *testing.T
	conn   *net.UnixConn
	f      *function
	server *Server
	lock   sync.Mutex
	ended  chan error
	cancel context.CancelFunc
}

// function is a Function with a BAR of 64 KiB and a configuration space of 4 KiB, of plain
// memory.
type function struct {
	bar    [64 << 10]byte
	config [4 << 10]byte
	resets int
}

func (f *function) region(index int) []byte {
	switch index {
	case 0:
		return f.bar[:]
	case pci.ConfigRegion:
		return f.config[:]
	}
	return nil
}

func (f *function) RegionSize(index int) uint64 { return uint64(len(f.region(index))) }
func (f *function) ReadRegion(index int, offset uint64, p []byte) {
	copy(p, f.region(index)[offset:][:len(p)])
}
func (f *function) WriteRegion(index int, offset uint64, p []byte) {
	copy(f.region(index)[offset:][:len(p)], p)
}
func (f *function) Reset() { f.resets++ }

func newClient(t *testing.T) *client {
	t.Helper()
	c := &client{t: t, f: &function{}, ended: make(chan error, 1)}
	mine, its := socketpair(t)
	c.conn = mine
	c.server = &Server{Function: c.f, Memory: NewMemory(&c.lock), Interrupts: NewInterrupts(4)}
	ctx, cancel := context.WithCancel(t.Context())
	c.cancel = cancel
	var wg sync.WaitGroup
	wg.Go(func() { c.ended <- c.server.Serve(ctx, its) })
	t.Cleanup(func() {
		cancel()
		mine.Close()
		wg.Wait()
	})
	return c
}

func socketpair(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("unix.Socketpair: %v", err)
	}
	conn := func(fd int) *net.UnixConn {
		f := os.NewFile(uintptr(fd), "socket")
		defer f.Close()
		c, err := net.FileConn(f)
		if err != nil {
			t.Fatalf("net.FileConn: %v", err)
		}
		return c.(*net.UnixConn)
	}
	return conn(fds[0]), conn(fds[1])
}

// send sends a message with file descriptors.
func (c *client) send(command uint16, flags uint32, body []byte, fds ...int) {
	c.t.Helper()
	b := make([]byte, headerSize+len(body))
	header{id: 7, command: command, size: uint32(len(b)), flags: flags}.encode(b)
	copy(b[headerSize:], body)
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if _, _, err := c.conn.WriteMsgUnix(b, oob, nil); err != nil {
		c.t.Fatalf("c.conn.WriteMsgUnix: %v", err)
	}
}

// receive returns the reply's body and its error.
func (c *client) receive() ([]byte, unix.Errno) {
	c.t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	b := make([]byte, headerSize)
	if _, err := io.ReadFull(c.conn, b); err != nil {
		c.t.Fatal("receive of a reply:", err)
	}
	var h header
	h.decode(b)
	if h.id != 7 || h.flags&flagTypeMask != flagReply {
		c.t.Fatalf("reply = %+v, want one to message 7", h)
	}
	b = make([]byte, h.size-headerSize)
	if _, err := io.ReadFull(c.conn, b); err != nil {
		c.t.Fatalf("io.ReadFull: %v", err)
	}
	if h.flags&flagError != 0 {
		if len(b) > 0 || h.errn == 0 {
			c.t.Fatalf("reply = %+v with %d bytes, want an error without data", h, len(b))
		}
		return nil, unix.Errno(h.errn)
	}
	return b, 0
}

func (c *client) call(command uint16, body []byte, fds ...int) ([]byte, unix.Errno) {
	c.t.Helper()
	c.send(command, 0, body, fds...)
	return c.receive()
}

// ok is like call for a command that must succeed.
func (c *client) ok(command uint16, body []byte, fds ...int) []byte {
	c.t.Helper()
	b, errno := c.call(command, body, fds...)
	if errno != 0 {
		c.t.Fatalf("%s: %v", commandNames[command], errno)
	}
	return b
}

// words encodes the bodies of commands, which consist of uint32 and uint64 values.
func words(w ...any) (b []byte) {
	for _, v := range w {
		b, _ = binary.Append(b, binary.LittleEndian, v)
	}
	return b
}

// memfd returns a file of the given size.
func memfd(t testing.TB, size int64) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatalf("unix.MemfdCreate: %v", err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatalf("f.Truncate: %v", err)
	}
	return f
}

// openFiles counts the process's file descriptors.
func openFiles(t testing.TB) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatalf("os.ReadDir: %v", err)
	}
	return len(d)
}
