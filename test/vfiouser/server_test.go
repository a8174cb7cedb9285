// SPDX-License-Identifier: Apache-2.0

//go:build linux

package vfiouser

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/test/pci"
)

func TestVersion(t *testing.T) {
	c := newClient(t)
	b := c.ok(cmdVersion, append(words(uint16(0), uint16(1)), `{"capabilities":{"max_msg_fds":8}}`+"\x00"...))
	if le.Uint16(b) != 0 || le.Uint16(b[2:]) > 1 || b[len(b)-1] != 0 {
		t.Errorf("reply to VERSION = % x", b)
	}
	var v struct {
		Capabilities map[string]int
	}
	if err := json.Unmarshal(b[4:len(b)-1], &v); err != nil || v.Capabilities["max_msg_fds"] != maxFDs {
		t.Errorf("capabilities = %s, %v", b[4:], err)
	}
	if _, errno := c.call(cmdVersion, words(uint16(1), uint16(0))); errno != unix.ENOTSUP {
		t.Errorf("VERSION 1.0 = %v, want ENOTSUP", errno)
	}
}

// TestLateCancel ends servers by their client and their context at the same time. The end by the
// context must not reach the sockets that are opened afterwards, which have the same descriptors.
func TestLateCancel(t *testing.T) {
	for i := range 500 {
		client, its := socketpair(t)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan struct{})
		go func() {
			defer close(served)
			s := &Server{Function: &function{}, Memory: NewMemory(&sync.Mutex{}), Interrupts: NewInterrupts(1)}
			s.Serve(ctx, its)
		}()
		client.Close()
		for range i % 100 {
			runtime.Gosched()
		}
		cancel()
		<-served
		a, b := socketpair(t)
		runtime.Gosched()
		if _, err := a.Write([]byte("x")); err != nil {
			t.Fatalf("Write to a later socket: %v", err)
		}
		a.Close()
		b.Close()
	}
}

func TestInfo(t *testing.T) {
	c := newClient(t)
	if b := c.ok(cmdGetInfo, make([]byte, 16)); !bytes.Equal(b, words(uint32(16), uint32(3), uint32(9), uint32(5))) {
		t.Errorf("DEVICE_GET_INFO = % x", b)
	}
	for index, size := range map[uint32]uint64{0: 64 << 10, 1: 0, 6: 0, pci.ConfigRegion: 4 << 10, 8: 0} {
		flags := uint32(0)
		if size > 0 {
			flags = 3
		}
		b := c.ok(cmdGetRegionInfo, words(uint32(32), uint32(0), index, uint32(0), uint64(0), uint64(0)))
		if !bytes.Equal(b, words(uint32(32), flags, index, uint32(0), size, uint64(0))) {
			t.Errorf("info of region %d = % x", index, b)
		}
	}
	for index, want := range map[uint32][2]uint32{0: {}, 1: {}, 2: {1, 4}, 4: {}} {
		b := c.ok(cmdGetIRQInfo, words(uint32(16), uint32(0), index, uint32(0)))
		if !bytes.Equal(b, words(uint32(16), want[0], index, want[1])) {
			t.Errorf("info of interrupt %d = % x", index, b)
		}
	}
	for _, cmd := range []uint16{cmdGetRegionInfo, cmdGetIRQInfo} {
		if _, errno := c.call(cmd, words(uint32(32), uint32(0), uint32(9), uint32(0), uint64(0), uint64(0))); errno != unix.EINVAL {
			t.Errorf("%s of index 9 = %v, want EINVAL", commandNames[cmd], errno)
		}
	}
}

func TestRegions(t *testing.T) {
	c := newClient(t)
	head := words(uint64(0xfff8), uint32(0), uint32(8))
	if b := c.ok(cmdRegionWrite, append(head, "ABCDEFGH"...)); !bytes.Equal(b, head) {
		t.Errorf("reply to a write = % x", b)
	}
	if b := c.ok(cmdRegionRead, head); string(b[16:]) != "ABCDEFGH" || !bytes.Equal(b[:16], head) {
		t.Errorf("reply to a read = % x", b)
	}
	// A write without a reply, like QEMU's to memory BARs. The first reply belongs to the next
	// message.
	c.send(cmdRegionWrite, flagNoReply, append(words(uint64(4), uint32(pci.ConfigRegion), uint32(2)), 6, 1))
	if b := c.ok(cmdRegionRead, words(uint64(4), uint32(pci.ConfigRegion), uint32(4))); !bytes.Equal(b[16:], []byte{6, 1, 0, 0}) {
		t.Errorf("configuration space = % x", b[16:])
	}
	c.ok(cmdReset, nil)
	if c.f.resets != 1 {
		t.Errorf("%d resets, want 1", c.f.resets)
	}
}

func TestRegionMistakes(t *testing.T) {
	c := newClient(t)
	for name, head := range map[string][]byte{
		"beyond the end":    words(uint64(0xfff9), uint32(0), uint32(8)),
		"offset wraps":      words(^uint64(0), uint32(0), uint32(8)),
		"no such region":    words(uint64(0), uint32(9), uint32(4)),
		"an empty region":   words(uint64(0), uint32(1), uint32(4)),
		"too much at once":  words(uint64(0), uint32(0), uint32(maxTransfer+1)),
		"far too much":      words(uint64(0), uint32(0), ^uint32(0)),
		"half a head":       words(uint64(0)),
		"the configuration": words(uint64(4096), uint32(pci.ConfigRegion), uint32(1)),
	} {
		for _, cmd := range []uint16{cmdRegionRead, cmdRegionWrite} {
			if _, errno := c.call(cmd, head); errno != unix.EINVAL {
				t.Errorf("%s with %s = %v, want EINVAL", commandNames[cmd], name, errno)
			}
		}
	}
	if _, errno := c.call(cmdRegionWrite, words(uint64(0), uint32(0), uint32(8), uint32(1))); errno != unix.EINVAL {
		t.Errorf("write of 8 bytes with 4 bytes of data = %v, want EINVAL", errno)
	}
	if c.f.bar != [64 << 10]byte{} {
		t.Error("an invalid write changed the BAR")
	}
}

func TestUnknownCommand(t *testing.T) {
	c := newClient(t)
	fd := int(memfd(t, 0).Fd())
	c.ok(cmdReset, nil) // wait until it has started
	before := openFiles(t)
	for _, cmd := range []uint16{0, 6, 11, 12, 14, 15, 16, 0xffff} {
		if _, errno := c.call(cmd, make([]byte, 64), fd); errno != unix.ENOTSUP {
			t.Errorf("command %d = %v, want ENOTSUP", cmd, errno)
		}
	}
	if n := openFiles(t); n != before {
		t.Errorf("%d open file descriptors, want %d", n, before)
	}
}

// TestEnd checks the result of Serve for each end of the connection, and that nothing remains.
func TestEnd(t *testing.T) {
	bad := header{id: 1, command: cmdReset, size: 15}
	long := header{id: 1, command: cmdRegionWrite, size: maxMessage + 1}
	reply := header{id: 1, command: cmdReset, size: headerSize, flags: flagReply}
	half := header{id: 1, command: cmdRegionWrite, size: headerSize + 24}
	for _, tc := range []struct {
		name string
		end  func(c *client)
		want string
	}{
		{"client closes", func(c *client) { c.conn.Close() }, ""},
		{"half a header", func(c *client) { c.conn.Write([]byte("1234")); c.conn.Close() }, "unexpected EOF"},
		{"half a message", func(c *client) { c.raw(half); c.conn.Close() }, "unexpected EOF"},
		{"message too short", func(c *client) { c.raw(bad) }, "message of 15 bytes"},
		{"message too long", func(c *client) { c.raw(long) }, "not between"},
		{"a reply", func(c *client) { c.raw(reply) }, "type 1"},
		{"context", func(c *client) { c.cancel() }, "context canceled"},
	} {
		before := openFiles(t)
		c := newClient(t)
		f := memfd(t, 1<<20)
		c.ok(cmdDMAMap, mapBody(3, 0, 0, 1<<20), int(f.Fd()))
		c.ok(cmdSetIRQs, words(uint32(20), uint32(irqSetDataEventFD|irqSetTrigger), uint32(msixIndex), uint32(0), uint32(1)), int(f.Fd()))
		f.Close()
		tc.end(c)
		select {
		case err := <-c.ended:
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: Serve = %v, want %q", tc.name, err, tc.want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: Serve has not returned", tc.name)
		}
		c.conn.Close()
		c.lock.Lock()
		if c.server.Memory.Bytes(0, 1) != nil || c.server.Interrupts.Raise(0) {
			t.Errorf("%s: the client's memory or vectors still exist", tc.name)
		}
		c.lock.Unlock()
		if n := openFiles(t); n != before {
			t.Errorf("%s: %d open file descriptors, want %d", tc.name, n, before)
		}
	}
}

// raw sends a header without a body.
func (c *client) raw(h header) {
	b := make([]byte, headerSize)
	h.encode(b)
	c.conn.Write(b)
}

func TestTooManyFiles(t *testing.T) {
	before := openFiles(t)
	c := newClient(t)
	f := memfd(t, 0)
	fds := make([]int, maxFDs+1)
	for i := range fds {
		fds[i] = int(f.Fd())
	}
	c.send(cmdReset, 0, nil, fds...)
	if err := <-c.ended; err == nil || !strings.Contains(err.Error(), "file descriptors") {
		t.Errorf("Serve = %v, want an error about file descriptors", err)
	}
	c.conn.Close()
	f.Close()
	if n := openFiles(t); n != before {
		t.Errorf("%d open file descriptors, want %d", n, before)
	}
}

// FuzzServer checks that the server answers each message or ends, for any input.
func FuzzServer(f *testing.F) {
	var all []byte
	for cmd, h := range handlers {
		b := make([]byte, headerSize+h.size)
		header{command: cmd, size: uint32(len(b))}.encode(b)
		f.Add(b)
		all = append(all, b...)
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, b []byte) {
		mine, its := socketpair(t)
		s := &Server{Function: &function{}, Memory: NewMemory(&nobody{}), Interrupts: NewInterrupts(2)}
		go func() {
			mine.Write(b)
			mine.CloseWrite()
		}()
		go func() {
			var sink [4096]byte
			for {
				if _, err := mine.Read(sink[:]); err != nil {
					return
				}
			}
		}()
		s.Serve(context.Background(), its)
		mine.Close()
	})
}

type nobody struct{}

func (*nobody) Lock()   {}
func (*nobody) Unlock() {}

// TestAccessAllocates checks the allocations of a register access. The only one is the address
// that x/sys allocates for each received message.
func TestAccessAllocates(t *testing.T) {
	mine, its := socketpair(t)
	defer mine.Close()
	sock, err := newSocket(its)
	its.Close()
	if err != nil {
		t.Fatalf("newSocket: %v", err)
	}
	defer sock.f.Close()
	s := &Server{Function: &function{}, Memory: NewMemory(&nobody{}), Interrupts: NewInterrupts(1)}
	msg := make([]byte, headerSize+24)
	header{command: cmdRegionWrite, size: uint32(len(msg))}.encode(msg)
	copy(msg[headerSize:], words(uint64(0x800), uint32(0), uint32(8)))
	in := make([]byte, 64)
	n := testing.AllocsPerRun(100, func() {
		mine.Write(msg)
		h, body, fds, err := sock.receive()
		if err != nil {
			t.Fatalf("sock.receive: %v", err)
		}
		k, errno := s.handle(sock, h.command, body, fds)
		if err := sock.reply(h, k, errno); err != nil {
			t.Fatalf("sock.reply: %v", err)
		}
		mine.Read(in)
	})
	if n > 1 {
		t.Errorf("%v allocations, want at most 1", n)
	}
}
