// SPDX-License-Identifier: Apache-2.0

package msg_test

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/streamconn/streamconntest"
	"purerdma/internal/vmtest"
	"purerdma/msg"
	"purerdma/verbs"
)

// vmEnds returns a listener on the first host, and a dialer on the second.
func vmEnds(t *testing.T, o ends) (*msg.Listener, *msg.Dialer) {
	t.Helper()
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	vmtest.AnyMemory(t)
	lc := msg.ListenConfig{Options: o.listen.ForTests()}
	ln, err := lc.Listen(t.Context(), "tcp", netip.AddrPortFrom(hosts[0].IPv4, 0).String())
	if err != nil {
		t.Fatalf("Listen() = %v", err)
	}
	t.Cleanup(func() { ln.Close() })
	local := cm.AddrFrom(netip.AddrPortFrom(hosts[1].IPv4, 0))
	return ln, &msg.Dialer{Options: o.dial.ForTests(), CM: cm.Dialer{LocalAddr: local}}
}

// vmPair connects two sides. The end of the test closes them.
func vmPair(t *testing.T, o ends) (client, server *msg.Conn) {
	t.Helper()
	ln, d := vmEnds(t, o)
	c, err := d.Dial(streamconntest.Deadline(t), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Dial() = %v", err)
	}
	t.Cleanup(func() { closed(t, c) })
	return c, accept(t, ln)
}

// TestVMCalls makes calls and sends messages in both directions at a time. No message may find the
// receives used up.
func TestVMCalls(t *testing.T) {
	for name, o := range sizes {
		t.Run(name, func(t *testing.T) {
			before := vmtest.RNRs(t)
			c, s := vmPair(t, o)
			ctx := streamconntest.Deadline(t)
			go serve(c)
			go serve(s)
			longest := min(c.MaxLen(), s.MaxLen())
			var all sync.WaitGroup
			for _, from := range []*msg.Conn{c, s} {
				for g := range 8 {
					all.Go(func() {
						for i := range 20 {
							if err := from.Send(ctx, 0, pattern(i, 50)); err != nil {
								t.Errorf("Send() = %v", err)
							}
							check(t, ctx, from, uint64(g), pattern(g+i, (g*501+i*97)%(longest+1)))
						}
					})
				}
			}
			all.Wait()
			if now := vmtest.RNRs(t); now != before {
				t.Errorf("RNRs() grew by %d, want 0", now-before)
			}
		})
	}
}

// TestVMServerFirst has the accepting side call first, which must wait for the first frame of the peer on
// iWARP.
func TestVMServerFirst(t *testing.T) {
	ln, d := vmEnds(t, ends{})
	for i := range 10 {
		c, err := d.Dial(streamconntest.Deadline(t), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("Dial() = %v", err)
		}
		go serve(c)
		s := accept(t, ln)
		check(t, streamconntest.Deadline(t), s, uint64(i), pattern(i, 100))
		closed(t, c)
		closed(t, s)
	}
}

// TestVMCloseAfterSend closes after sends. On RoCE the peer must get all messages.
func TestVMCloseAfterSend(t *testing.T) {
	ln, d := vmEnds(t, ends{})
	for round := range 10 {
		c, err := d.Dial(streamconntest.Deadline(t), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("Dial() = %v", err)
		}
		s := accept(t, ln)
		const count = 30
		for i := range count {
			if err := c.Send(streamconntest.Deadline(t), uint64(i), pattern(i, 1000)); err != nil {
				t.Fatalf("Send() = %v", err)
			}
		}
		closed(t, c)
		n := 0
		for ; ; n++ {
			m, err := s.Receive(streamconntest.Deadline(t))
			if err != nil {
				if err != io.EOF && vmtest.Driver() != "siw" {
					t.Errorf("round %d: Receive() = %v, want io.EOF", round, err)
				}
				break
			}
			if m.Tag() != uint64(n) || !bytes.Equal(m.Bytes(), pattern(n, 1000)) {
				t.Errorf("round %d: Receive() = tag %d and %d bytes, want message %d", round, m.Tag(), len(m.Bytes()), n)
			}
			m.Free()
		}
		if n != count && vmtest.Driver() != "siw" {
			t.Errorf("round %d: %d messages have arrived, want %d", round, n, count)
		}
		closed(t, s)
	}
}

// TestVMCloseDuringCalls closes one side while goroutines of both call.
func TestVMCloseDuringCalls(t *testing.T) {
	ln, d := vmEnds(t, ends{})
	for round := range 6 {
		c, err := d.Dial(streamconntest.Deadline(t), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("Dial() = %v", err)
		}
		s := accept(t, ln)
		var all sync.WaitGroup
		for _, x := range []*msg.Conn{c, s} {
			all.Go(func() { serve(x) })
			all.Go(func() { use(t, streamconntest.Deadline(t), x, round) })
		}
		time.Sleep(time.Duration(round) * 20 * time.Millisecond)
		closed(t, []*msg.Conn{c, s}[round%2])
		all.Wait()
		closed(t, c)
		closed(t, s)
	}
}

// TestVMPeerBreaks has the peer violate the protocol. The error names the violation.
func TestVMPeerBreaks(t *testing.T) {
	ln, d := vmEnds(t, ends{})
	raw := d.CM
	raw.Param = &cm.ConnParam{PrivateData: msg.Hello(4096, 8, 8)}
	conn, err := raw.Dial(streamconntest.Deadline(t), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatalf("Dial() = %v", err)
	}
	defer conn.Close()
	s := accept(t, ln)
	_ = streamconntest.SendRaw(t, conn, first(msg.KindReply, "", nil)) // s may have ended the connection
	if _, err := s.Receive(streamconntest.Deadline(t)); !errors.Is(err, syscall.EPROTO) {
		t.Errorf("Receive() = %v, want %v", err, syscall.EPROTO)
	}
}

// TestVMSlowConsumer fills the window of a peer that takes nothing. Another connection of the same listener continues.
func TestVMSlowConsumer(t *testing.T) {
	before := vmtest.RNRs(t)
	ln, d := vmEnds(t, ends{listen: msg.Options{Window: slowWindow}})
	slowConsumer(t, ln, func() *msg.Conn {
		c, err := d.Dial(streamconntest.Deadline(t), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("Dial() = %v", err)
		}
		t.Cleanup(func() { closed(t, c) })
		return c
	})
	if now := vmtest.RNRs(t); now != before {
		t.Errorf("RNRs() grew by %d, want 0", now-before)
	}
}

// TestVMLentMemory makes calls that lend memory, in both directions at a time, with small calls between them.
func TestVMLentMemory(t *testing.T) {
	c, s := vmPair(t, ends{})
	ctx := streamconntest.Deadline(t)
	go serveLent(c)
	go serveLent(s)
	var all sync.WaitGroup
	for _, from := range []*msg.Conn{c, s} {
		for g, mr := range []*verbs.MR{nil, windowMR(t, from, 1_200_000)} {
			all.Go(func() {
				for i, n := range []int{33, 5000, 260<<10 + 1, 600_000} {
					exchange(t, ctx, from, g+i, n, mr)
				}
			})
		}
	}
	all.Wait()
	if n, want := c.Windows() > 0, vmtest.Driver() == "mlx5"; n != want {
		t.Errorf("Windows() > 0 = %v on %s, want %v", n, vmtest.Driver(), want)
	}
}

// TestVMLateUse reads lent memory after its end, through the token. That costs the reader its connection.
// Another connection of both sides goes on.
func TestVMLateUse(t *testing.T) {
	ln, d := vmEnds(t, ends{})
	connect := func() (c, s *msg.Conn) {
		c, err := d.Dial(streamconntest.Deadline(t), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("Dial() = %v", err)
		}
		t.Cleanup(func() { closed(t, c) })
		return c, accept(t, ln)
	}
	honest, server := connect()
	go serveLent(server)
	ctx := streamconntest.Deadline(t)
	for _, windows := range []bool{false, true} {
		for _, long := range []bool{false, true} {
			c, s := connect()
			mem := msg.Memory{Bytes: make([]byte, 5000)}
			if windows {
				mem.MR = windowMR(t, c, 10_000)
				mem.Bytes = mem.MR.Bytes()[5000:]
			}
			copy(mem.Bytes, "lent")
			token := lendOnce(t, c, s, mem, long)
			b, err := s.Pool().Get(ctx, 100)
			if err != nil {
				t.Fatalf("Get() = %v", err)
			}
			if err := s.Read(ctx, b.SGE(), token); err == nil {
				t.Errorf("windows %v, until Close %v: Read() after the end = nil with %q, want an error", windows, long, b.Bytes()[:4])
			}
			b.Free()
			if _, err := s.Receive(ctx); err == nil {
				t.Errorf("windows %v, until Close %v: Receive() = nil, want an error", windows, long)
			}
			exchange(t, ctx, honest, 1, 10_000, nil)
		}
	}
}

// TestVMCancelLent cancels calls while the server writes lent memory. After Do has returned, the memory must
// not change, and the connection goes on.
func TestVMCancelLent(t *testing.T) {
	c, s := vmPair(t, ends{})
	cancelLent(t, c, s)
}

// TestVMFramesAreNotLent tries to use the memory of the frames of a peer, with the right key.
func TestVMFramesAreNotLent(t *testing.T) {
	ln, d := vmEnds(t, ends{})
	for _, write := range []bool{false, true} {
		if !write && vmtest.Driver() == "siw" {
			continue // it does not check the right RemoteRead: docs/reference/driver-faults.md
		}
		c, err := d.Dial(streamconntest.Deadline(t), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("Dial() = %v", err)
		}
		t.Cleanup(func() { closed(t, c) })
		framesAreNotLent(t, c, accept(t, ln), write)
	}
}

// TestVMStreams makes calls with several replies in both directions at a time. No part may find the receives
// used up.
func TestVMStreams(t *testing.T) {
	before := vmtest.RNRs(t)
	c, s := vmPair(t, streamEnds)
	go serveCounts(c)
	go serveCounts(s)
	ctx := streamconntest.Deadline(t)
	var all sync.WaitGroup
	for _, from := range []*msg.Conn{c, s} {
		for _, parts := range []int{1, 3, 5} {
			all.Go(func() {
				for _, n := range []int{0, parts, 40} {
					r, err := from.Stream(ctx, &msg.Request{Tag: uint64(n), Parts: parts})
					if err != nil {
						t.Errorf("Stream() with %d parts = %v", parts, err)
						return
					}
					if err := takeAll(ctx, r, n, parts-1); err != nil {
						t.Errorf("%d parts at a time: %v", parts, err)
					}
				}
			})
		}
	}
	all.Wait()
	if now := vmtest.RNRs(t); now != before {
		t.Errorf("RNRs() grew by %d, want 0", now-before)
	}
}

// TestVMSmallDuringBulk makes small calls while large transfers in both directions occupy the connection.
func TestVMSmallDuringBulk(t *testing.T) {
	c, s := vmPair(t, ends{})
	smallDuringBulk(t, c, s)
}

// TestVMRandom makes calls of all kinds, and cancels some of them at any time.
func TestVMRandom(t *testing.T) {
	c, s := vmPair(t, streamEnds)
	randomUse(t, c, s)
}
