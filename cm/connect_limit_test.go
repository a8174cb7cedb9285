// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/cm/cmtest"
	"purerdma/uverbs"
	"purerdma/uverbs/uverbstest"
)

// TestCancelledDialsAreBounded keeps CONNECT in the kernel, which happens on iWARP while the
// peer does not answer. Dials whose contexts end leave only a bounded number of commands
// behind. Dials above the bound fail with the reason. Dials reach the peer again after the
// commands have returned.
func TestCancelledDialsAreBounded(t *testing.T) {
	const most = 8
	defer func(l *connectLimit) { connecting = l }(connecting)
	connecting = newConnectLimit(most)
	k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
	release := make(chan struct{})
	var inKernel, highest atomic.Int32
	k.OnCommand(func(c cmtest.Command) error {
		if c.Name == "CONNECT" {
			n := inKernel.Add(1)
			for h := highest.Load(); n > h && !highest.CompareAndSwap(h, n); h = highest.Load() {
			}
			<-release
			inKernel.Add(-1)
		}
		return nil
	})
	ln, err := (&ListenConfig{Host: k.Host()}).Listen(t.Context(), "tcp", "10.0.0.1:7")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	defer ln.Close()
	host := k.Host()
	dial := func(ctx context.Context) error {
		conn, err := (&Dialer{Host: host, LocalAddr: mustAddr("10.0.0.2:0")}).Dial(ctx, "tcp", "10.0.0.1:7")
		if err == nil {
			conn.Close()
		}
		return err
	}
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cancelled := make(chan error, most)
	for range most {
		go func() { cancelled <- dial(ctx) }()
	}
	for inKernel.Load() < most {
		time.Sleep(time.Millisecond)
	}
	// All slots are in use by dials that still wait. Another dial waits for its turn.
	soon, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if err := dial(soon); !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "8 dials of this process are in the kernel") {
		t.Errorf("Dial while all slots are in use = %v, want the end of its context and the reason", err)
	}
	cancel()
	for range most {
		if err := <-cancelled; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled Dial = %v, want Canceled", err)
		}
	}
	for range 10 * most {
		if err := dial(t.Context()); !errors.Is(err, syscall.EAGAIN) || !strings.Contains(err.Error(), "8 cancelled dials of this process are still in the kernel") {
			t.Fatalf("Dial after %d cancelled ones = %v, want EAGAIN and the reason", most, err)
		}
	}
	if got := highest.Load(); got != most {
		t.Errorf("%d CONNECT commands at a time, want %d", got, most)
	}
	// A command keeps four goroutines. They are the command, the dial's pump, and the
	// goroutines that wait for the end of both. The goroutines of the later dials end soon.
	const want = 4*most + 10
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine()-before > want && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if got := runtime.NumGoroutine() - before; got > want {
		t.Errorf("%d goroutines of cancelled dials, want at most %d", got, want)
	}
	close(release)
	go func() {
		for {
			req, err := ln.Accept(t.Context())
			if err != nil {
				return
			}
			req.Reject(nil)
		}
	}()
	for end := time.Now().Add(5 * time.Second); len(connecting.slots) > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := connecting.abandoned.Load(); n != 0 || len(connecting.slots) != 0 {
		t.Errorf("%d commands and %d abandoned ones after all have returned, want 0, 0", len(connecting.slots), n)
	}
	if err := dial(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Dial after the commands have returned = %v, want ECONNREFUSED from the peer", err)
	}
}

// TestBlockedDestroysAreBounded keeps the DESTROY_ID of cancelled dials in the kernel, which
// happens on iWARP while the peer has accepted the TCP connection but does not answer. The
// dials keep their slots until the commands have returned. On RoCE no slot is kept.
func TestBlockedDestroysAreBounded(t *testing.T) {
	const most = 4
	for name, machine := range map[string]struct {
		devices uverbs.Kernel
		kept    int
	}{
		"RoCE":  {uverbstest.New("rxe0", "rxe1"), 0},
		"iWARP": {uverbstest.NewSIW("siw0", "siw1"), most},
	} {
		t.Run(name, func(t *testing.T) {
			defer func(l *connectLimit) { connecting = l }(connecting)
			limit := newConnectLimit(most)
			connecting = limit
			k := cmtest.New(machine.devices)
			ln, err := (&ListenConfig{Host: k.Host()}).Listen(t.Context(), "tcp", "10.0.0.1:7")
			if err != nil {
				t.Fatalf("Listen: %v", err)
			}
			defer ln.Close()
			release := make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var connected, destroying atomic.Int32
			k.OnCommand(func(c cmtest.Command) error {
				switch {
				case c.Name == "CONNECT" && connected.Add(1) == most:
					cancel()
				case c.Name == "DESTROY_ID" && destroying.Add(1) <= most: // of the cancelled dials
					<-release
				}
				return nil
			})
			host := k.Host()
			dial := func(ctx context.Context) error {
				conn, err := (&Dialer{Host: host, LocalAddr: mustAddr("10.0.0.2:0")}).Dial(ctx, "tcp", "10.0.0.1:7")
				if err == nil {
					conn.Close()
				}
				return err
			}
			cancelled := make(chan error, most)
			for range most {
				go func() { cancelled <- dial(ctx) }()
			}
			for range most {
				if err := <-cancelled; !errors.Is(err, context.Canceled) {
					t.Errorf("cancelled Dial = %v, want Canceled", err)
				}
			}
			for destroying.Load() < most {
				time.Sleep(time.Millisecond)
			}
			settle := func(want int) {
				t.Helper()
				for end := time.Now().Add(5 * time.Second); len(limit.slots) != want && time.Now().Before(end); {
					time.Sleep(time.Millisecond)
				}
				if got, abandoned := len(limit.slots), int(limit.abandoned.Load()); got != want || abandoned != want {
					t.Errorf("%d slots, %d of them abandoned, want %d, %[3]d", got, abandoned, want)
				}
			}
			settle(machine.kept)
			if machine.kept > 0 {
				soon, stop := context.WithTimeout(t.Context(), 5*time.Second)
				defer stop()
				if err := dial(soon); !errors.Is(err, syscall.EAGAIN) {
					t.Errorf("Dial during DESTROY_ID of %d cancelled ones = %v, want EAGAIN", most, err)
				}
			}
			close(release)
			settle(0)
			d := &Dialer{Host: host, LocalAddr: mustAddr("10.0.0.2:0")}
			r, err := d.Resolve(t.Context(), "tcp", "10.0.0.1:7")
			if err != nil {
				t.Fatalf("Resolve: %v", err)
			}
			r.ID().Close()
			if _, err := r.Connect(t.Context(), nil, nil); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Connect after ID.Close = %v, want ErrClosed", err)
			}
			settle(0)
			served := make(chan *Conn)
			go func() {
				for {
					req, err := ln.Accept(t.Context())
					if err != nil {
						return
					}
					if conn, err := req.Accept(t.Context(), nil, nil); err == nil {
						served <- conn
					}
				}
			}()
			conn, err := d.Dial(t.Context(), "tcp", "10.0.0.1:7")
			if err != nil {
				t.Fatalf("Dial: %v", err)
			}
			defer conn.Close()
			server := <-served
			defer server.Close()
			settle(0)
		})
	}
}
