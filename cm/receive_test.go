// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/inflight"
	"purerdma/verbs"
)

// TestConnReceive sends messages both ways through connections that post their own receives, and
// through connections of a Shared, by Receive and by HandleMessages.
func TestConnReceive(t *testing.T) {
	small := inflight.ReceiveConfig{Size: 1024, Depth: 16}
	for _, tc := range []struct {
		name   string
		shared bool
		handle bool
	}{
		{"own", false, false},
		{"own, handled", false, true},
		{"shared", true, false},
		{"shared, handled", true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onAnyKernel(t, func(t *testing.T, host *verbs.Host, server, client netip.Addr) {
				lc, d := cm.ListenConfig{Host: host}, cm.Dialer{Host: host, LocalAddr: cm.AddrFrom(netip.AddrPortFrom(client, 0))}
				if tc.shared {
					s := cm.NewShared(cm.SharedConfig{Receive: inflight.ReceiveConfig{Size: 1024, Depth: 64}})
					defer closed(t, s)
					lc.Shared, d.Shared = s, s
				} else {
					lc.Receive, d.Receive = &small, &small
				}
				receiveBothWays(t, lc, d, server, tc.handle)
			})
		})
	}
}

// closed closes c and reports its error.
func closed(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("%T.Close() = %v", c, err)
	}
}

// serveMessages accepts connections until the listener is closed, and answers each message with its bytes in
// reverse order.
func serveMessages(ln *cm.Listener, handle bool) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		req, err := ln.Accept(context.Background())
		if err != nil {
			return
		}
		all.Go(func() {
			defer req.Close()
			conn, err := req.Accept(context.Background(), nil, nil)
			if err != nil {
				return
			}
			defer conn.Close()
			if !handle {
				answerAll(conn)
				return
			}
			over := make(chan struct{})
			conn.HandleMessages(func(m *inflight.Message, err error) {
				if err != nil {
					close(over)
					return
				}
				turnAround(conn, m)
			})
			<-over
		})
	}
}

func answerAll(conn *cm.Conn) {
	for {
		m, err := conn.Receive(context.Background())
		if err != nil {
			return
		}
		turnAround(conn, m)
	}
}

// turnAround sends a message back in its own buffer.
func turnAround(conn *cm.Conn, m *inflight.Message) {
	b := m.Bytes()
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	if op, err := conn.StartSend(context.Background(), m.SGE(), m); err == nil {
		op.Detach() // it frees the message when it was sent
	}
}

func receiveBothWays(t *testing.T, lc cm.ListenConfig, d cm.Dialer, server netip.Addr, handle bool) {
	const conns, rounds = 4, 50
	ctx := within(t, time.Minute)
	ln := listenOn(t, lc, netip.AddrPortFrom(server, 0).String())
	served := make(chan struct{})
	go func() {
		serveMessages(ln, handle)
		close(served)
	}()
	var all sync.WaitGroup
	for c := range conns {
		all.Go(func() {
			if err := talk(ctx, d, ln.Addr().String(), c, rounds); err != nil {
				t.Errorf("connection %d: %v", c, err)
			}
		})
	}
	all.Wait()
	ln.Close()
	<-served
}

// talk sends messages of various lengths, several at a time, and checks the answers and their
// order.
func talk(ctx context.Context, d cm.Dialer, to string, c, rounds int) error {
	conn, err := d.Dial(ctx, "tcp", to)
	if err != nil {
		return err
	}
	defer conn.Close()
	const burst = 8
	for round := range rounds {
		for i := range burst {
			if err := sendCopy(ctx, conn, question(c, round, i)); err != nil {
				return fmt.Errorf("message %d of round %d: %w", i, round, err)
			}
		}
		for i := range burst {
			m, err := conn.Receive(ctx)
			if err != nil {
				return fmt.Errorf("answer %d of round %d: %w", i, round, err)
			}
			want := question(c, round, i)
			for i, j := 0, len(want)-1; i < j; i, j = i+1, j-1 {
				want[i], want[j] = want[j], want[i]
			}
			if !bytes.Equal(m.Bytes(), want) || m.Len() != len(want) {
				return fmt.Errorf("answer %d of round %d has %d bytes, want the message in reverse, %d bytes", i, round, m.Len(), len(want))
			}
			m.Free()
		}
	}
	if _, err := conn.Disconnect(ctx); err != nil {
		return err
	}
	var gone *cm.DisconnectedError
	if m, err := conn.Receive(ctx); !errors.As(err, &gone) || !gone.Local {
		return fmt.Errorf("Receive after Disconnect = %v, %v, want a local *DisconnectedError", m, err)
	}
	if err := conn.Close(); err != nil {
		return err
	}
	if m, err := conn.Receive(ctx); !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("Receive after Close = %v, %v, want net.ErrClosed", m, err)
	}
	return nil
}

// question returns the i-th message of a round of a connection.
func question(c, round, i int) []byte {
	b := make([]byte, 12+(c*7+round*13+i*101)%1013)
	for n := range b {
		b[n] = byte(c + round + i + n)
	}
	binary.BigEndian.PutUint32(b, uint32(c))
	binary.BigEndian.PutUint32(b[4:], uint32(round))
	binary.BigEndian.PutUint32(b[8:], uint32(i))
	return b
}

// sendCopy sends a copy of a message.
func sendCopy(ctx context.Context, conn *cm.Conn, msg []byte) error {
	b, err := conn.Pool().Copy(ctx, msg)
	if err != nil {
		return err
	}
	defer b.Free()
	return conn.Send(ctx, b.SGE())
}

// TestReceiveEnds checks that messages which came before the peer's disconnect are received, and then
// io.EOF, also by a call that waits.
func TestReceiveEnds(t *testing.T) {
	onAnyKernel(t, func(t *testing.T, host *verbs.Host, server, client netip.Addr) {
		for _, shared := range []bool{false, true} {
			ctx := within(t, time.Minute)
			lc, d := cm.ListenConfig{Host: host}, cm.Dialer{Host: host, LocalAddr: cm.AddrFrom(netip.AddrPortFrom(client, 0))}
			d.Receive = &inflight.ReceiveConfig{Depth: 4}
			if shared {
				s := cm.NewShared(cm.SharedConfig{})
				defer closed(t, s)
				lc.Shared = s
			} else {
				lc.Receive = d.Receive
			}
			ln := listenOn(t, lc, netip.AddrPortFrom(server, 0).String())
			defer ln.Close()
			accepted := acceptOne(ctx, t, ln, nil)
			conn := ok(d.Dial(ctx, "tcp", ln.Addr().String()))(t)
			defer conn.Close()
			for i := range 3 {
				if err := sendCopy(ctx, conn, question(0, 0, i)); err != nil {
					t.Fatalf("sending message %d = %v", i, err)
				}
			}
			peer := accepted()
			defer peer.Close()
			for i := range 3 {
				m := ok(peer.Receive(ctx))(t)
				if want := question(0, 0, i); !bytes.Equal(m.Bytes(), want) {
					t.Errorf("message %d = %d bytes, want %d others", i, m.Len(), len(want))
				}
				m.Free()
			}
			late, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			if m, err := peer.Receive(late); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Receive() = %v, %v, want a context.DeadlineExceeded", m, err)
			}
			cancel()
			waits := make(chan error, 1)
			go func() {
				_, err := peer.Receive(ctx)
				waits <- err
			}()
			if _, err := conn.Disconnect(ctx); err != nil {
				t.Errorf("Disconnect() = %v", err)
			}
			if err := <-waits; err != io.EOF {
				t.Errorf("waiting Receive = %v, want io.EOF", err)
			}
			if m, err := peer.Receive(ctx); err != io.EOF {
				t.Errorf("Receive() after the end = %v, %v, want io.EOF", m, err)
			}
		}
	})
}

// TestReceiveOptions checks options that exclude each other, and a connection without receives.
func TestReceiveOptions(t *testing.T) {
	fake := newFakeNet(t, fakeMachines["rxe"](), cm.ListenConfig{})
	go echo(fake.ln)
	ctx := within(t, 10*time.Second)
	s := cm.NewShared(cm.SharedConfig{})
	remote := cm.NewShared(cm.SharedConfig{})
	_ = remote
	d := cm.Dialer{Host: fake.k.Host(), LocalAddr: fake.d.LocalAddr, Shared: s, PD: (*verbs.Device).DefaultPD}
	if conn, err := d.Dial(ctx, "tcp", "10.0.0.1:7"); err == nil {
		t.Errorf("Dial() with PD and Shared = %v, nil, want an error", conn)
	}
	conn := ok(fake.d.Dial(ctx, "tcp", "10.0.0.1:7"))(t)
	if m, err := conn.Receive(ctx); err == nil {
		t.Errorf("Receive() without the option = %v, nil, want an error", m)
	}
	closed(t, conn)
	closed(t, s)
	fake.close(t)
}
