// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cm

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/cm/cmtest"
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
