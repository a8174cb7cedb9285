// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cdev

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// packets returns a File that sends each command as a packet, and the file descriptor that receives them.
func packets(t *testing.T) (*File, int) {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("unix.Socketpair: %v", err)
	}
	f, err := New(p[0], "packets")
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() { f.Close(); unix.Close(p[1]) })
	return f, p[1]
}

// TestCommandsReuse writes to a slow device, which is closed at the end, from many goroutines. Some of them
// cancel their writes. Every packet must have the bytes of one writer. The number of packets from a writer
// must equal the number of its successful writes.
func TestCommandsReuse(t *testing.T) {
	f, out := packets(t)
	const writers, rounds, size = 8, 400, 64
	var written, received [256]int
	var mu sync.Mutex
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, size+1)
		for i := 0; ; i++ {
			n, err := unix.Read(out, b)
			if n <= 0 || err != nil {
				return
			}
			if n != size || !bytes.Equal(b[:n], bytes.Repeat(b[:1], n)) {
				t.Errorf("packet = %x, want %d equal bytes", b[:n], size)
			}
			received[b[0]]++
			if i%16 == 0 {
				time.Sleep(50 * time.Microsecond)
			}
		}
	}()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			b := bytes.Repeat([]byte{byte(w)}, size)
			for i := range rounds {
				var err error
				switch i % 3 {
				case 0:
					err = f.Write(b)
				case 1:
					err = f.WriteMode(b, Raw)
				case 2:
					// The device never becomes readable. If it is full, the write ends with its context.
					ctx, cancel := context.WithTimeout(context.Background(), 100*time.Microsecond)
					err = f.WriteWhenReadable(ctx, b)
					cancel()
				}
				switch {
				case err == nil:
					mu.Lock()
					written[w]++
					mu.Unlock()
				case !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, context.DeadlineExceeded):
					t.Errorf("write of writer %d = %v, want nil, EAGAIN or %v", w, err, context.DeadlineExceeded)
				}
			}
		})
	}
	wg.Wait()
	// Close ends these writers.
	for range writers {
		wg.Go(func() {
			b := bytes.Repeat([]byte{writers}, size)
			for {
				err := f.WriteWhenReadable(context.Background(), b)
				if err == nil {
					mu.Lock()
					written[writers]++
					mu.Unlock()
				} else if errors.Is(err, net.ErrClosed) {
					return
				} else {
					t.Errorf("WriteWhenReadable during Close = %v, want nil or %v", err, net.ErrClosed)
					return
				}
			}
		})
	}
	time.Sleep(5 * time.Millisecond)
	if err := f.Close(); err != nil {
		t.Errorf("f.Close(): %v", err)
	}
	wg.Wait()
	<-read
	if written != received {
		t.Errorf("received packets of each writer = %v, want %v", received[:writers+1], written[:writers+1])
	}
}

// TestPooledCommandIsEmpty checks that a pooled command holds neither memory nor an error, also after a
// cancelled wait. The pool must return each command once.
func TestPooledCommandIsEmpty(t *testing.T) {
	f, _ := packets(t)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	big := make([]byte, 1<<20) // EMSGSIZE
	for what, write := range map[string]func() error{
		"Write":             func() error { return f.Write(big) },
		"WriteWhenReadable": func() error { return f.WriteWhenReadable(ended, big) },
	} {
		for range 10 {
			if err := write(); !errors.Is(err, syscall.EMSGSIZE) {
				t.Fatalf("%s = %v, want EMSGSIZE", what, err)
			}
		}
		a, b := commands.Get().(*command), commands.Get().(*command)
		if a == b {
			t.Errorf("after %s the pool returned one command twice", what)
		}
		for _, c := range []*command{a, b} {
			if c.b != nil || c.err != nil {
				t.Errorf("after %s a pooled command holds %d bytes and the error %v, want none", what, len(c.b), c.err)
			}
		}
	}
}
