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

// TestCancelledDialsAreBounded: CONNECT stays in the kernel, as on iWARP while nobody answers.
// Dials whose contexts end leave no more than a bounded number of commands behind, dials over
// that say why they fail, and all goes on when the kernel has given up.
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
	// All slots are in use, and somebody waits for each: one more dial waits for its turn.
	soon, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if err := dial(soon); !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "8 dials of this process are in the kernel") {
		t.Errorf("Dial while all slots are in use = %v, want the end of its context and the reason", err)
	}
	cancel()
	for range most {
		if err := <-cancelled; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled Dial = %v", err)
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
	// Four for each command: it, the dial's pump, and what waits for both to end.
	if got, want := runtime.NumGoroutine()-before, 4*most+10; got > want {
		t.Errorf("%d goroutines are left of cancelled dials, want at most %d", got, want)
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
		t.Errorf("%d commands and %d abandoned ones are counted when all have returned", len(connecting.slots), n)
	}
	if err := dial(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Dial after the commands have returned = %v, want the answer of the peer", err)
	}
}
