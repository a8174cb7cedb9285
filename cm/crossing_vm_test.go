// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// crossings is a handler of the trace that calls act at the n-th command. A test can act each
// time that a call enters the kernel.
type crossings struct {
	count atomic.Int64
	n     int64
	act   func()
	last  atomic.Pointer[string]
}

func (c *crossings) Enabled(context.Context, slog.Level) bool { return true }
func (c *crossings) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *crossings) WithGroup(string) slog.Handler            { return c }

func (c *crossings) Handle(_ context.Context, r slog.Record) error {
	if c.count.Add(1) == c.n {
		var s strings.Builder
		r.Attrs(func(a slog.Attr) bool { s.WriteString(" " + a.String()); return true })
		what := r.Message + s.String()
		c.last.Store(&what)
		c.act()
	}
	return nil
}

// cancelAtEach runs attempt with a host whose n-th command cancels the context. n counts from
// 1 to the number of commands of an uncancelled attempt.
func cancelAtEach(t *testing.T, attempt func(ctx context.Context, host *verbs.Host) error) {
	t.Helper()
	for n := int64(1); ; n++ {
		ctx, cancel := context.WithCancel(within(t, 30*time.Second))
		c := &crossings{n: n, act: cancel}
		err := attempt(ctx, &verbs.Host{Drivers: verbs.DefaultHost().Drivers, Trace: slog.New(c)})
		over := c.last.Load() == nil
		cancel()
		switch {
		case over && err != nil:
			t.Fatalf("attempt without a cancellation: %v", err)
		case over:
			if n < 10 {
				t.Fatalf("an attempt has %d commands, want at least 9", n-1)
			}
			t.Logf("cancelled at each of %d commands", n-1)
			return
		case err != nil && !errors.Is(err, context.Canceled):
			t.Errorf("attempt cancelled at command %d (%s) = %v, want nil or Canceled", n, *c.last.Load(), err)
		}
	}
}

// TestCancelledAtEachCrossing cancels a dialer, and then an accepting side, right after each
// command on the way to a connection. In each case the call returns at once. It fails with the
// context's error, or has succeeded. Nothing is left open, and the listener serves the next
// client.
func TestCancelledAtEachCrossing(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	vmtest.NoLeaks(t)
	ln := listen(t, at(hosts[0].IPv4, 0))
	// The kernel handles connection messages on several processors. It drops a client's
	// goodbye that it handles before the client's request, and then repeats the answer for a
	// minute (cm_recv_handler, cm_rep_handler).
	go echoWithin(ln, 3*time.Second)
	// At its first request the listener opens the device, and keeps it open.
	served(t, dialerOf(hosts[1].IPv4), ln.Addr())
	t.Run("dialing", func(t *testing.T) {
		vmtest.NoLeaks(t)
		cancelAtEach(t, func(ctx context.Context, host *verbs.Host) error {
			d := dialerOf(hosts[1].IPv4)
			d.Host = host
			conn, err := d.Dial(ctx, "tcp", ln.Addr().String())
			if err == nil {
				conn.Close()
			}
			return err
		})
		served(t, dialerOf(hosts[1].IPv4), ln.Addr())
	})
	t.Run("accepting", func(t *testing.T) {
		vmtest.NoLeaks(t)
		cancelAtEach(t, func(ctx context.Context, host *verbs.Host) error {
			lc := &cm.ListenConfig{Host: host}
			ln, err := lc.Listen(ctx, "tcp", at(hosts[0].IPv4, 0))
			if err != nil {
				return err
			}
			defer ln.Close()
			dialed := make(chan *cm.Conn, 1)
			dialing, stop := context.WithTimeout(context.Background(), 20*time.Second)
			go func() {
				conn, _ := dialerOf(hosts[1].IPv4).Dial(dialing, "tcp", ln.Addr().String())
				dialed <- conn
			}()
			defer func() {
				stop()
				if conn := <-dialed; conn != nil {
					conn.Close()
				}
			}()
			req, err := ln.Accept(ctx)
			if err != nil {
				return err
			}
			defer req.Close()
			conn, err := req.Accept(ctx, nil, nil)
			if err == nil {
				conn.Close()
			}
			return err
		})
	})
}

// TestDatagramCancelledAtEachCrossing is TestCancelledAtEachCrossing for a datagram look-up
// and for its answer.
func TestDatagramCancelledAtEachCrossing(t *testing.T) {
	ln, d := datagramEnds(t)
	go func() {
		for {
			req, err := ln.Accept(context.Background())
			if err != nil {
				return
			}
			req.Answer(nil, nil) // the client may have left
			req.Close()
		}
	}()
	lookUp := func(ctx context.Context, d *cm.Dialer, addr string) error {
		r, err := d.Resolve(ctx, "udp", addr)
		if err != nil {
			return err
		}
		defer r.Close()
		if _, err := r.QP(); err != nil {
			return err
		}
		_, err = r.Lookup(ctx, nil)
		return err
	}
	// At its first request the listener opens the device, and keeps it open.
	if err := lookUp(within(t, 10*time.Second), d, ln.Addr().String()); err != nil {
		t.Fatalf("lookUp: %v", err)
	}
	t.Run("looking up", func(t *testing.T) {
		vmtest.NoLeaks(t)
		cancelAtEach(t, func(ctx context.Context, host *verbs.Host) error {
			traced := *d
			traced.Host = host
			return lookUp(ctx, &traced, ln.Addr().String())
		})
		if err := lookUp(within(t, 10*time.Second), d, ln.Addr().String()); err != nil {
			t.Errorf("lookUp afterwards: %v", err)
		}
	})
	t.Run("answering", func(t *testing.T) {
		vmtest.NoLeaks(t)
		cancelAtEach(t, func(ctx context.Context, host *verbs.Host) error {
			ln, err := (&cm.ListenConfig{Host: host}).Listen(ctx, "udp", at(ln.Addr().Addr(), 0))
			if err != nil {
				return err
			}
			defer ln.Close()
			asked := make(chan struct{})
			asking, stop := context.WithTimeout(context.Background(), 20*time.Second)
			go func() { defer close(asked); _ = lookUp(asking, d, ln.Addr().String()) }()
			defer func() { stop(); <-asked }()
			req, err := ln.Accept(ctx)
			if err != nil {
				return err
			}
			defer req.Close()
			return req.Answer(nil, nil)
		})
	})
}
