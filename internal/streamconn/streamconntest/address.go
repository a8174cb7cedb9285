// SPDX-License-Identifier: Apache-2.0

//go:build linux

package streamconntest

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/uverbs/uverbstest"
)

// burst is the number of connections that one address starts at a time.
const burst = 200

// Addresses tests a listener with many requests of one address. It connects by dial.
func Addresses(t *testing.T, listen func(cm.ListenConfig) (Listener, error), dial func(ctx context.Context, d cm.Dialer, to string) (io.Closer, error)) {
	t.Run("incomplete handshakes", func(t *testing.T) {
		a := newAddresses(t, listen, dial, cm.ListenConfig{HandshakeTimeout: time.Hour})
		a.blockedBy(t, burst)
	})
	t.Run("incomplete handshakes with MaxPending", func(t *testing.T) {
		a := newAddresses(t, listen, dial, cm.ListenConfig{HandshakeTimeout: time.Hour, MaxPending: 8})
		a.blockedBy(t, 8)
	})
	t.Run("a burst", func(t *testing.T) {
		a := newAddresses(t, listen, dial, cm.ListenConfig{})
		a.dialAll(t.Context(), burst)
		for range burst {
			conn, err := a.ln.Accept(Deadline(t))
			if err != nil {
				t.Fatalf("Accept() = %v", err)
			}
			defer conn.Close()
		}
		for range burst {
			if d := <-a.dialed; d.err != nil {
				t.Errorf("dial() of %d connections at once = %v", burst, d.err)
			} else {
				defer d.conn.Close()
			}
		}
	})
}

// addresses has a listener and three addresses: of the listener, of a host with many requests, and of another host.
type addresses struct {
	k      *cmtest.Kernel
	ln     Listener
	dial   func(ctx context.Context, from string) (io.Closer, error)
	dialed chan dialed
}

// dialed is a result of dial.
type dialed struct {
	conn io.Closer
	err  error
}

func newAddresses(t *testing.T, listen func(cm.ListenConfig) (Listener, error), dial func(ctx context.Context, d cm.Dialer, to string) (io.Closer, error), config cm.ListenConfig) *addresses {
	t.Helper()
	k := Kernel(t, uverbstest.New("rxe0", "rxe1", "rxe2"))
	k.Retry = time.Hour // no handshake fails
	config.Host = k.Host()
	ln, err := listen(config)
	if err != nil {
		t.Fatalf("Listen() = %v", err)
	}
	t.Cleanup(func() { ln.Close() })
	a := &addresses{k: k, ln: ln, dialed: make(chan dialed, burst)}
	a.dial = func(ctx context.Context, from string) (io.Closer, error) {
		local, err := cm.ParseAddr(from)
		if err != nil {
			return nil, err
		}
		return dial(ctx, cm.Dialer{Host: config.Host, LocalAddr: local}, ln.Addr().String())
	}
	return a
}

// dialAll dials n times at once from 10.0.0.2.
func (a *addresses) dialAll(ctx context.Context, n int) {
	for range n {
		go func() {
			conn, err := a.dial(ctx, "10.0.0.2:0")
			a.dialed <- dialed{conn, err}
		}()
	}
}

// blockedBy checks that another address connects after n requests of one address whose handshakes stay incomplete.
func (a *addresses) blockedBy(t *testing.T, n int) {
	requests := make(chan struct{}, n)
	a.k.OnMessage(func(m cmtest.Message) (cmtest.Fate, time.Duration) {
		if m.From.Addr().String() != "10.0.0.2" {
			return cmtest.Arrives, 0
		}
		if m.Type == cmtest.REQ {
			requests <- struct{}{}
		}
		if m.Type == cmtest.RTU {
			return cmtest.Lost, 0
		}
		return cmtest.Arrives, 0
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a.dialAll(ctx, n)
	for range n {
		<-requests
	}
	conn, err := a.dial(Deadline(t), "10.0.0.3:0")
	if err != nil {
		t.Fatalf("dial() of another address after %d incomplete handshakes = %v", n, err)
	}
	defer conn.Close()
	accepted, err := a.ln.Accept(Deadline(t))
	if err != nil {
		t.Fatalf("Accept() of another address after %d incomplete handshakes = %v", n, err)
	}
	defer accepted.Close()
	cancel()
	for range n {
		d := <-a.dialed
		switch {
		case d.err == nil:
			defer d.conn.Close()
		case !errors.Is(d.err, context.Canceled) && cm.RefusalOf(d.err) != cm.RefusedMaxPendingPerAddr:
			t.Errorf("dial() with an incomplete handshake = %v, want it to wait or to be refused", d.err)
		}
	}
}
