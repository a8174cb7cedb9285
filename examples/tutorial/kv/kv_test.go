// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"purerdma/cm"
	"purerdma/cm/cmtest"
	"purerdma/internal/vmtest"
	"purerdma/uverbs/uverbstest"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

// store is a Server on a fake kernel.
type store struct {
	kernel *cmtest.Kernel
	dialer cm.Dialer
	stop   func() error // ends Serve and returns its result
}

const address = "10.0.0.1:7471"

func newStore(t *testing.T) *store {
	t.Helper()
	k := cmtest.New(uverbstest.New("rxe0", "rxe1")) // 10.0.0.1 and 10.0.0.2
	ln, err := (&cm.ListenConfig{Host: k.Host(), Receive: receives}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatalf("Listen() = %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	s := &Server{values: map[string]string{}, table: make([]byte, tableSize)}
	go func() { served <- s.Serve(ctx, ln) }()
	stop := sync.OnceValue(func() error {
		cancel()
		defer ln.Close()
		return <-served
	})
	t.Cleanup(func() { stop() })
	return &store{k, cm.Dialer{Host: k.Host()}, stop}
}

func (s *store) dial(ctx context.Context, t *testing.T) *Client {
	t.Helper()
	c, err := Dial(ctx, s.dialer, address)
	if err != nil {
		t.Fatalf("Dial() = %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return c
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// keysOf returns n keys with slots of their own. The race detector regards the fake device as a part
// of the program, so no client may read a slot that the server writes.
func keysOf(n int) []string {
	var keys []string
	used := map[int]bool{}
	for i := 0; len(keys) < n; i++ {
		key := fmt.Sprintf("key%d", i)
		if !used[offset(key)] {
			used[offset(key)] = true
			keys = append(keys, key)
		}
	}
	return keys
}

// TestStore uses a store from many goroutines of several clients, with values that fit into the
// table and longer ones.
func TestStore(t *testing.T) {
	s, ctx := newStore(t), within(t)
	const clients, goroutines = 3, 100
	keys := keysOf(clients * goroutines)
	var all sync.WaitGroup
	for n := range clients {
		c := s.dial(ctx, t)
		for g := range goroutines {
			key := keys[n*goroutines+g]
			all.Go(func() {
				for i := range 5 {
					want := strings.Repeat(fmt.Sprint(i), 1+g*8)
					if err := c.Put(ctx, key, want); err != nil {
						t.Errorf("Put(%s) = %v", key, err)
					}
					if got, err := c.Get(ctx, key); got != want || err != nil {
						t.Errorf("Get(%s) = %q, %v, want %q", key, got, err, want)
					}
					if err := c.Delete(ctx, key); err != nil {
						t.Errorf("Delete(%s) = %v", key, err)
					}
					if got, err := c.Get(ctx, key); !errors.Is(err, ErrNotFound) {
						t.Errorf("Get(%s) after Delete = %q, %v, want %v", key, got, err, ErrNotFound)
					}
				}
			})
		}
	}
	all.Wait()
}

// TestServeOutOfDescriptors refuses a client because the process is out of file descriptors. The store then serves
// the next client.
func TestServeOutOfDescriptors(t *testing.T) {
	s, ctx := newStore(t), within(t)
	s.dialer.LocalAddr = cm.AddrFrom(netip.MustParseAddrPort("10.0.0.2:0"))
	var failed atomic.Bool
	s.kernel.OnCommand(func(c cmtest.Command) error {
		if c.Device == "rxe0" && c.Name == "open" && failed.CompareAndSwap(false, true) {
			return syscall.EMFILE
		}
		return nil
	})
	if c, err := Dial(ctx, s.dialer, address); err == nil || !failed.Load() {
		t.Errorf("Dial() while the server is out of descriptors = %v, %v, want an error", c, err)
	}
	if err := s.dial(ctx, t).Put(ctx, "color", "blue"); err != nil {
		t.Errorf("Put() = %v", err)
	}
}

// TestErrors makes requests that fail, and then further requests that succeed.
func TestErrors(t *testing.T) {
	s, ctx := newStore(t), within(t)
	c := s.dial(ctx, t)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for i := range 2 * window { // more than there are IDs
		if err := c.Delete(ctx, "size"); !errors.Is(err, ErrNotFound) {
			t.Fatalf("Delete() of a missing key = %v, want %v", err, ErrNotFound)
		}
		if err := c.Put(ctx, "size", strings.Repeat("x", receives.Size)); err == nil {
			t.Fatal("Put() of a long value = nil, want an error")
		}
		if _, err := c.call(ctx, message{Op: "SWAP"}); err != Error("bad request") {
			t.Fatalf("call() of an unknown operation = %v, want %q", err, "bad request")
		}
		if err := c.Put(ended, "color", fmt.Sprint(i)); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("Put() with an ended context = %v, want nil or %v", err, context.Canceled)
		}
		if _, err := c.Get(ended, "size"); !errors.Is(err, context.Canceled) && !errors.Is(err, ErrNotFound) {
			t.Fatalf("Get() with an ended context = %v, want %v or %v", err, context.Canceled, ErrNotFound)
		}
	}
	if err := c.Put(ctx, "color", "red"); err != nil {
		t.Errorf("Put() = %v", err)
	}
	if got, err := c.Get(ctx, "color"); got != "red" || err != nil {
		t.Errorf("Get() = %q, %v, want %q", got, err, "red")
	}
}

// TestShutdown ends the server while clients use it. All calls return.
func TestShutdown(t *testing.T) {
	s, ctx := newStore(t), within(t)
	c := s.dial(ctx, t)
	var all sync.WaitGroup
	keys := keysOf(20)
	begun := make(chan struct{})
	for _, key := range keys {
		all.Go(func() {
			err := c.Put(ctx, key, "blue")
			begun <- struct{}{}
			for i := 0; err == nil; i++ {
				if err = c.Put(ctx, key, fmt.Sprint(i)); err == nil {
					_, err = c.Get(ctx, key)
				}
			}
			if ctx.Err() != nil {
				t.Errorf("calls after the end of the server = %v, want another error", err)
			}
		})
	}
	for range keys {
		<-begun
	}
	if err := s.stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("Serve() = %v, want %v", err, context.Canceled)
	}
	all.Wait()
}

// TestGarbage sends a message that is no request. The server ends that connection only.
func TestGarbage(t *testing.T) {
	s, ctx := newStore(t), within(t)
	c, bad := s.dial(ctx, t), s.dial(ctx, t)
	b, err := bad.conn.Pool().Copy(ctx, []byte(`{"ID":`))
	if err != nil {
		t.Fatalf("Copy() = %v", err)
	}
	defer b.Free()
	if err := bad.conn.Send(ctx, b.SGE()); err != nil {
		t.Errorf("Send() = %v", err)
	}
	if _, err := bad.conn.Wait(ctx); err != nil {
		t.Errorf("Wait() for the end of the connection = %v", err)
	}
	if err := c.Put(ctx, "color", "blue"); err != nil {
		t.Errorf("Put() of another client = %v", err)
	}
}

// TestSlot encodes and decodes a slot, and changes a byte of it.
func TestSlot(t *testing.T) {
	slot := make([]byte, slotSize)
	if v, found := lookup(slot, "color"); found {
		t.Errorf("lookup() in an empty slot = %q, want none", v)
	}
	set(slot, "color", "blue")
	if v, found := lookup(slot, "color"); v != "blue" || !found {
		t.Errorf("lookup() = %q, %t, want %q", v, found, "blue")
	}
	if v, found := lookup(slot, "size"); found {
		t.Errorf("lookup() of another key = %q, want none", v)
	}
	for i := range slot {
		slot[i]++
		if v, found := lookup(slot, "color"); found {
			t.Errorf("lookup() with another byte %d = %q, want none", i, v)
		}
		slot[i]--
	}
	set(slot, "color", strings.Repeat("x", slotSize))
	if v, found := lookup(slot, "color"); found {
		t.Errorf("lookup() of a long value = %q, want none", v)
	}
}
