// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// These tests run on a real kernel (rdmavm -hosts 2). The listening side is on the first host,
// and the connecting side is on the second.

func TestMain(m *testing.M) {
	if child := os.Getenv("CM_TEST_CHILD"); child != "" {
		os.Exit(children[child]())
	}
	vmtest.Main(m)
}

// within returns a context that ends after d, for an operation that must return before.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func listen(t *testing.T, address string) *cm.Listener {
	t.Helper()
	ln, err := cm.Listen(context.Background(), "tcp", address)
	if err != nil {
		t.Fatalf("cm.Listen: %v", err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// ends returns a listener on the first host, and a dialer on the second.
func ends(t *testing.T) (*cm.Listener, *cm.Dialer) {
	t.Helper()
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	return listen(t, at(hosts[0].IPv4, 0)), dialerOf(hosts[1].IPv4)
}

func dialerOf(ip netip.Addr) *cm.Dialer {
	return &cm.Dialer{LocalAddr: cm.AddrFrom(netip.AddrPortFrom(ip, 0))}
}

func at(ip netip.Addr, port uint16) string { return netip.AddrPortFrom(ip, port).String() }

// echo serves connections until the listener is closed. It sends every message back.
func echo(ln *cm.Listener) { echoWithin(ln, time.Minute) }

// echoWithin is echo with a limit on the wait for the confirmation of an accepted client.
func echoWithin(ln *cm.Listener, limit time.Duration) {
	for {
		req, err := ln.Accept(context.Background())
		if oe, ok := errors.AsType[*cm.OpError](err); ok && oe.Temporary() {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			return
		}
		go func() {
			defer req.Close()
			pd, err := req.PD()
			if err != nil {
				return
			}
			// Post two receives. The next message may arrive before the receive of the
			// answered message is posted again, and iWARP ends a connection whose receiver is
			// not ready.
			const size = 4096
			buf, err := pd.Alloc(2*size, verbs.LocalWrite)
			if err != nil {
				return
			}
			defer buf.Close()
			for id := range 2 {
				if req.PostRecv(uint64(id), buf.Slice(id*size, size)) != nil {
					return
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			conn, err := req.Accept(ctx, nil, nil)
			if err != nil {
				return
			}
			defer conn.Close()
			for {
				wc, err := conn.WaitRecv(context.Background())
				if err != nil {
					return
				}
				at := int(wc.ID) * size
				if conn.Send(context.Background(), buf.Slice(at, int(wc.ByteLen))) != nil {
					return
				}
				if conn.PostRecv(wc.ID, buf.Slice(at, size)) != nil {
					return
				}
			}
		}()
	}
}

// say sends a message to an echo server and checks the answer.
func say(t *testing.T, conn *cm.Conn, msg string) {
	t.Helper()
	ctx := within(t, 10*time.Second)
	buf, err := conn.PD().Alloc(8192, verbs.LocalWrite)
	if err != nil {
		t.Fatalf("Alloc: %v", err)
	}
	defer buf.Close()
	if err := conn.PostRecv(7, buf.Slice(4096, 4096)); err != nil {
		t.Fatalf("conn.PostRecv: %v", err)
	}
	copy(buf.Bytes(), msg)
	if err := conn.Send(ctx, buf.Slice(0, len(msg))); err != nil {
		t.Fatalf("conn.Send: %v", err)
	}
	wc, err := waitRecvAnswer(ctx, conn)
	if err != nil {
		t.Fatalf("waitRecvAnswer: %v", err)
	}
	if got := string(buf.Bytes()[4096:][:wc.ByteLen]); got != msg || wc.ID != 7 {
		t.Fatalf("echo of %q = %q in receive %d, want the same text in receive 7", msg, got, wc.ID)
	}
}

// waitRecvAnswer waits for the answer to a connection's first message. siw does not process a
// message that overtakes the accept until another message follows
// (docs/reference/driver-faults.md). On siw, waitRecvAnswer therefore sends empty WRITEs until
// the answer has come.
func waitRecvAnswer(ctx context.Context, conn *cm.Conn) (verbs.WC, error) {
	if vmtest.Driver() != "siw" {
		return conn.WaitRecv(ctx)
	}
	answered, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-answered:
				tick.Stop()
				return
			case <-tick.C:
				conn.Probe(ctx) // if it fails, the wait fails as well
			}
		}
	}()
	wc, err := conn.WaitRecv(ctx)
	close(answered)
	<-stopped
	return wc, err
}

// served checks that a listener still accepts and serves a connection.
func served(t *testing.T, d *cm.Dialer, addr cm.Addr) {
	t.Helper()
	conn, err := d.Dial(within(t, 10*time.Second), "tcp", addr.String())
	if err != nil {
		t.Fatalf("Dial of the listener: %v", err)
	}
	defer conn.Close()
	say(t, conn, "still there?")
}
