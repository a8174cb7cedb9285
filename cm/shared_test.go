// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/inflight"
	"purerdma/uverbs/uverbstest"
	"purerdma/verbs"
)

// sharedPairs returns connections of a listener with a Shared: the dialing sides, and the accepting
// ones. Their Close is the caller's.
func sharedPairs(t *testing.T, host *verbs.Host, s *cm.Shared, server, client netip.Addr, n int) (dialed, accepted []*cm.Conn) {
	t.Helper()
	d := cm.Dialer{Host: host, LocalAddr: cm.AddrFrom(netip.AddrPortFrom(client, 0)), Receive: &inflight.ReceiveConfig{Depth: 4}}
	return pairs(t, cm.ListenConfig{Host: host, Shared: s}, d, server, n)
}

// pairs returns n connections to a server: the dialing sides, and the accepting ones. Their Close is the
// caller's.
func pairs(t *testing.T, lc cm.ListenConfig, d cm.Dialer, server netip.Addr, n int) (dialed, accepted []*cm.Conn) {
	t.Helper()
	ctx := within(t, time.Minute)
	ln := listenOn(t, lc, netip.AddrPortFrom(server, 0).String())
	defer ln.Close()
	for range n {
		taken := acceptOne(ctx, t, ln, nil)
		dialed = append(dialed, ok(d.Dial(ctx, "tcp", ln.Addr().String()))(t))
		accepted = append(accepted, taken())
	}
	return dialed, accepted
}

// TestSharedIsolation checks that connections of a Shared cannot offer memory that other peers
// reach, and that a window of one connection is no use to the peer of another.
func TestSharedIsolation(t *testing.T) {
	onAnyKernel(t, func(t *testing.T, host *verbs.Host, server, client netip.Addr) {
		ctx := within(t, time.Minute)
		s := cm.NewShared(cm.SharedConfig{})
		defer closed(t, s)
		dialed, accepted := sharedPairs(t, host, s, server, client, 2)
		defer func() {
			for i := range dialed {
				closed(t, dialed[i])
				closed(t, accepted[i])
			}
		}()
		friend, stranger, mine := dialed[0], dialed[1], accepted[0]
		if mine.PD() != accepted[1].PD() || mine.QP().SendCQ() != accepted[1].QP().RecvCQ() {
			t.Error("connections of a Shared have different PDs or CQs")
		}
		for _, access := range []verbs.Access{verbs.RemoteRead, verbs.LocalWrite | verbs.RemoteWrite} {
			if mr, err := mine.Alloc(4096, access); !errors.Is(err, syscall.EPERM) {
				t.Errorf("Alloc(%v) = %v, %v, want EPERM", access, mr, err)
			}
		}
		if mine.Device().Features().MWType2 {
			lendToOne(ctx, t, mine, friend, stranger)
		}
		if err := sendCopy(ctx, friend, []byte("still there")); err != nil {
			t.Errorf("sending = %v", err)
		}
		m := ok(mine.Receive(ctx))(t)
		if string(m.Bytes()) != "still there" {
			t.Errorf("Receive() = %q, want %q", m.Bytes(), "still there")
		}
		m.Free()
	})
}

// TestSharedWithoutSRQ uses a Shared on devices without shared receive queues.
func TestSharedWithoutSRQ(t *testing.T) {
	for name, receive := range map[string]*inflight.ReceiveConfig{"default": nil, "Receive": {Depth: 3, Size: 100}} {
		t.Run(name, func(t *testing.T) {
			machine := uverbstest.New("rxe0", "rxe1")
			machine.NoSRQ = true
			s := cm.NewShared(cm.SharedConfig{Receive: inflight.ReceiveConfig{Size: 50}})
			fake := newFakeNet(t, machine, cm.ListenConfig{Shared: s, Receive: receive})
			ctx := within(t, 10*time.Second)
			taken := acceptOne(ctx, t, fake.ln, nil)
			client := ok(fake.d.Dial(ctx, "tcp", fake.ln.Addr().String()))(t)
			server := taken()
			if srq := server.QP().SRQ(); srq != nil {
				t.Errorf("SRQ() = %v, want nil", srq)
			}
			size := 50
			if receive != nil {
				size = receive.Size
			}
			text := strings.Repeat("x", size)
			for range 5 {
				if err := sendCopy(ctx, client, []byte(text)); err != nil {
					t.Fatalf("sendCopy(%d bytes) = %v", size, err)
				}
				m := ok(server.Receive(ctx))(t)
				if string(m.Bytes()) != text {
					t.Errorf("Receive() = %q, want %q", m.Bytes(), text)
				}
				m.Free()
			}
			closed(t, client)
			closed(t, server)
			closed(t, s)
			fake.close(t)
		})
	}
}

// lendToOne binds a window for the peer of one connection, and has the peers of two use it.
func lendToOne(ctx context.Context, t *testing.T, mine, friend, stranger *cm.Conn) {
	mr := ok(mine.Alloc(4096, verbs.LocalWrite|verbs.MWBind))(t)
	window := ok(mine.PD().AllocMW(verbs.MWType2))(t)
	defer func() { closed(t, window) }()
	q := ok(inflight.New(mine.QP(), inflight.Config{}))(t)
	bind := window.Bind(mr, 0, 4096, verbs.RemoteWrite)
	if err := ok(q.Start(ctx, &bind, nil))(t).Wait(ctx); err != nil {
		t.Fatalf("binding the window = %v", err)
	}
	remote := window.Remote()
	theirs := ok(stranger.Alloc(16, verbs.LocalWrite))(t)
	copy(theirs.Bytes(), "of the stranger")
	if err := stranger.Write(ctx, theirs.SGE(), remote); err == nil {
		t.Error("Write() with the key of another connection = nil, want an error")
	}
	if !bytes.Equal(mr.Bytes()[:16], make([]byte, 16)) {
		t.Errorf("a stranger has written %q", mr.Bytes()[:16])
	}
	ours := ok(friend.Alloc(16, verbs.LocalWrite))(t)
	copy(ours.Bytes(), "of the friend 12")
	if err := friend.Write(ctx, ours.SGE(), remote); err != nil {
		t.Errorf("Write() with the key of the connection = %v", err)
	}
	if string(mr.Bytes()[:16]) != "of the friend 12" {
		t.Errorf("the window has %q, want %q", mr.Bytes()[:16], ours.Bytes())
	}
}

// TestSharedIdleConnections counts the goroutines that idle connections of a Shared add. Each has one,
// which waits for events of the connection manager.
func TestSharedIdleConnections(t *testing.T) {
	onAnyKernel(t, func(t *testing.T, host *verbs.Host, server, client netip.Addr) {
		const conns = 40
		s := cm.NewShared(cm.SharedConfig{Receive: inflight.ReceiveConfig{Depth: 64}})
		defer closed(t, s)
		first, taken := sharedPairs(t, host, s, server, client, 2)
		defer func() {
			for i := range first {
				closed(t, first[i])
				closed(t, taken[i])
			}
		}()
		over := make(chan error, conns+2)
		handle := func(c *cm.Conn) {
			c.HandleMessages(func(m *inflight.Message, err error) {
				if err != nil {
					over <- err
					return
				}
				m.Free()
			})
		}
		handle(taken[0])
		time.Sleep(10 * time.Millisecond)
		before := runtime.NumGoroutine()
		dialed, accepted := sharedPairs(t, host, s, server, client, conns)
		for _, c := range accepted {
			handle(c)
		}
		added := 0
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			// The listener of these connections has a goroutine or two.
			if added = runtime.NumGoroutine() - before; added <= 2*conns+4 || time.Now().After(end) {
				break
			}
		}
		if added > 2*conns+4 {
			t.Errorf("%d connections, of which this process has both sides, add %d goroutines, want one for each side", conns, added)
		}
		for i, c := range dialed {
			closed(t, c)
			closed(t, accepted[i])
		}
		for range conns {
			if err := <-over; err == nil {
				t.Error("the end of a connection = nil, want an error")
			}
		}
	})
}

// TestSharedKills ends connections in the middle of long messages, more often than there are receives.
// The others still get messages.
func TestSharedKills(t *testing.T) {
	onAnyKernel(t, func(t *testing.T, host *verbs.Host, server, client netip.Addr) {
		const size, depth = 64 << 10, 8
		ctx := within(t, 2*time.Minute)
		s := cm.NewShared(cm.SharedConfig{Receive: inflight.ReceiveConfig{Size: size, Depth: depth}})
		defer closed(t, s)
		idle, mine := sharedPairs(t, host, s, server, client, 1)
		defer closed(t, mine[0])
		defer closed(t, idle[0])
		for range 2 * depth {
			dialed, accepted := sharedPairs(t, host, s, server, client, 2)
			for i, c := range dialed {
				mr := ok(c.Alloc(size, 0))(t)
				for range 3 {
					ok(c.StartSend(ctx, mr.SGE(), nil))(t).Detach()
				}
				if i == 0 { // the other is closed at once
					m := ok(accepted[i].Receive(ctx))(t)
					m.Free()
				}
			}
			for i := range dialed {
				closed(t, accepted[i])
				closed(t, dialed[i])
			}
			// Now and then a message comes. Otherwise the idle connection might have any of the lost receives.
			if err := sendCopy(ctx, idle[0], []byte("still there")); err != nil {
				t.Fatalf("sending = %v", err)
			}
			ok(mine[0].Receive(ctx))(t).Free()
		}
	})
}
