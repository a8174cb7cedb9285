// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm_test

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestCancelled ends the context at each stage.
func TestCancelled(t *testing.T) {
	hosts := vmtest.Hosts(t, 2)
	d := dialerOf(hosts[1].IPv4)
	soon := func(t *testing.T) context.Context { return within(t, 200*time.Millisecond) }
	// Without the end of the context, each of these calls would wait for minutes or forever.
	bounded := func(t *testing.T, fn func() error) {
		t.Helper()
		err := fn()
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("error = %v, want DeadlineExceeded of both packages", err)
		}
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() {
			t.Errorf("error %v is no timeout", err)
		}
	}
	t.Run("before the call", func(t *testing.T) {
		vmtest.NoLeaks(t)
		ln := listen(t, at(hosts[0].IPv4, 0))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := d.Dial(ctx, "tcp", ln.Addr().String()); !errors.Is(err, context.Canceled) {
			t.Errorf("Dial with a cancelled context = %v, want Canceled", err)
		}
		if _, err := ln.Accept(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Accept with a cancelled context = %v, want Canceled", err)
		}
	})
	t.Run("resolving", func(t *testing.T) {
		vmtest.NoLeaks(t)
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(200*time.Millisecond, func() { cancel(errors.New("changed my mind")) })
		_, err := d.Resolve(ctx, "tcp", neighbour(hosts[1].IPv4, 78, 1))
		wantError(t, err, "resolve", nil, "changed my mind")
	})
	t.Run("listening", func(t *testing.T) {
		vmtest.NoLeaks(t)
		ln := listen(t, at(hosts[0].IPv4, 0))
		bounded(t, func() error { _, err := ln.Accept(soon(t)); return err })
		go echo(ln)
		served(t, d, ln.Addr())
	})
	t.Run("connecting to a silent server", func(t *testing.T) {
		vmtest.NoLeaks(t)
		ln := listen(t, at(hosts[0].IPv4, 0))
		bounded(t, func() error { _, err := d.Dial(soon(t), "tcp", ln.Addr().String()); return err })
		// The request of the cancelled peer may still be in the queue, or may have been
		// removed. The listener keeps working in both cases.
		go echo(ln)
		served(t, d, ln.Addr())
	})
	t.Run("accepting a peer that does not confirm", func(t *testing.T) {
		vmtest.NoLeaks(t)
		ln := listen(t, at(hosts[0].IPv4, 0))
		ch, id := silentPeer(t, d.LocalAddr, ln.Addr())
		defer ch.Close()
		defer id.Close()
		req, err := ln.Accept(within(t, 5*time.Second))
		if err != nil {
			t.Fatalf("Accept: %v", err)
		}
		bounded(t, func() error { _, err := req.Accept(soon(t), nil, nil); return err })
		go echo(ln)
		served(t, d, ln.Addr())
	})
	t.Run("accepting a peer that has left", func(t *testing.T) {
		vmtest.NoLeaks(t)
		ln := listen(t, at(hosts[0].IPv4, 0))
		for name, answer := range map[string]func(*cm.Request) error{
			"accept": func(req *cm.Request) error { _, err := req.Accept(within(t, 5*time.Second), nil, nil); return err },
			"reject": func(req *cm.Request) error { return req.Reject(nil) },
		} {
			ch, id := silentPeer(t, d.LocalAddr, ln.Addr())
			defer ch.Close()
			req, err := ln.Accept(within(t, 5*time.Second))
			if err != nil {
				t.Fatalf("Accept: %v", err)
			}
			id.Close()
			time.Sleep(50 * time.Millisecond) // until the message that it has left arrives
			err = answer(req)
			var gone *cm.DisconnectedError
			if !errors.As(err, &gone) || !errors.Is(err, syscall.ECONNABORTED) {
				t.Errorf("%s = %v, want a DisconnectedError with ECONNABORTED", name, err)
			}
		}
		go echo(ln)
		served(t, d, ln.Addr())
	})
	t.Run("receiving and sending", func(t *testing.T) {
		vmtest.NoLeaks(t)
		ln := listen(t, at(hosts[0].IPv4, 0))
		accepted := make(chan *cm.Conn, 1)
		go func() {
			req, err := ln.Accept(context.Background())
			if err != nil {
				close(accepted)
				return
			}
			conn, _ := req.Accept(context.Background(), nil, nil)
			accepted <- conn
		}()
		conn, err := d.Dial(within(t, 5*time.Second), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		defer conn.Close()
		if peer := <-accepted; peer != nil {
			defer peer.Close()
		}
		mr, err := conn.PD().Alloc(4096, verbs.LocalWrite)
		if err != nil {
			t.Fatalf("Alloc: %v", err)
		}
		defer mr.Close()
		bounded(t, func() error { _, err := conn.WaitRecv(soon(t)); return err })
		bounded(t, func() error { _, err := conn.Wait(soon(t)); return err })
		// The peer has posted no receive, so that the message cannot be delivered. It must not
		// be in flight any more when Send returns.
		bounded(t, func() error { return conn.Send(soon(t), mr.SGE()) })
		if conn.QP().State() != verbs.QPErr {
			t.Errorf("QP state after a cancelled Send = %v, want ERR, so that the QP no longer uses the memory", conn.QP().State())
		}
		var given *cm.BrokenError
		if _, err := conn.WaitRecv(within(t, 5*time.Second)); !errors.As(err, &given) || given.Op != "send" || !given.Cancelled {
			t.Errorf("WaitRecv after a cancelled Send = %v, want a BrokenError of the send", err)
		}
		err = conn.Send(within(t, 5*time.Second), mr.SGE())
		if !errors.As(err, &given) {
			t.Errorf("Send after a cancelled Send = %v, want a BrokenError", err)
		}
		if ne, ok := err.(net.Error); !ok || ne.Timeout() {
			t.Errorf("Send after a cancelled Send = %v, want no timeout", err)
		}
		if err := conn.Explain(nil); err != nil {
			t.Errorf("Explain(nil) = %v, want nil", err)
		}
	})
}

// silentPeer connects and never confirms. Its ID has no QP, so that it gets the response and
// does not answer it.
func silentPeer(t *testing.T, src, dst cm.Addr) (*cm.EventChannel, *cm.ID) {
	t.Helper()
	ch, err := cm.NewEventChannel(nil)
	if err != nil {
		t.Fatalf("cm.NewEventChannel: %v", err)
	}
	id, err := ch.NewID(cm.IDConfig{})
	if err != nil {
		t.Fatalf("NewID: %v", err)
	}
	step := func(err error, want cm.EventType) {
		t.Helper()
		if err == nil {
			var ev *cm.Event
			if ev, err = ch.Next(within(t, 5*time.Second)); err == nil && ev.Type != want {
				err = ev.Err()
			}
		}
		if err != nil {
			t.Fatalf("waiting for %v: %v", want, err)
		}
	}
	step(id.ResolveAddr(src, dst, time.Second), cm.EventAddrResolved)
	step(id.ResolveRoute(time.Second), cm.EventRouteResolved)
	if err := id.Connect(&cm.ConnParam{QPNum: 0x4711, RetryCount: 7, RNRRetryCount: 7}); err != nil {
		t.Fatalf("id.Connect: %v", err)
	}
	return ch, id
}
