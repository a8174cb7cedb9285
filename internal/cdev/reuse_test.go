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

// packets returns a File that takes commands as packets, and the end where they come out.
func packets(t *testing.T) (*File, int) {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(p[0], "packets")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close(); unix.Close(p[1]) })
	return f, p[1]
}

// TestCommandsReuse writes from many goroutines, some of which give up, to a device
// that is slow and then closed: every packet is of one writer, and comes out as often as
// its writer was told that it went in.
func TestCommandsReuse(t *testing.T) {
	f, out := packets(t)
	const writers, rounds, size = 8, 400, 64
	var told, came [256]int
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
				t.Errorf("packet of several writers: %x", b[:n])
			}
			came[b[0]]++
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
					// The device never says that it is readable: full, it is given up.
					ctx, cancel := context.WithTimeout(context.Background(), 100*time.Microsecond)
					err = f.WriteWhenReadable(ctx, b)
					cancel()
				}
				switch {
				case err == nil:
					mu.Lock()
					told[w]++
					mu.Unlock()
				case !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, context.DeadlineExceeded):
					t.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	wg.Wait()
	// Some that Close ends.
	for range writers {
		wg.Go(func() {
			b := bytes.Repeat([]byte{writers}, size)
			for {
				err := f.WriteWhenReadable(context.Background(), b)
				if err == nil {
					mu.Lock()
					told[writers]++
					mu.Unlock()
				} else if errors.Is(err, net.ErrClosed) {
					return
				} else {
					t.Error(err)
					return
				}
			}
		})
	}
	time.Sleep(5 * time.Millisecond)
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	<-read
	if told != came {
		t.Errorf("packets told of %v, come %v", told[:writers+1], came[:writers+1])
	}
}

// TestCommandLetsGo: a command that nobody uses holds on to no memory and no error, and
// goes to one user; so it does after a wait that was given up.
func TestCommandLetsGo(t *testing.T) {
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
				t.Fatal(err)
			}
		}
		a, b := commands.Get().(*command), commands.Get().(*command)
		if a == b {
			t.Error("one command for two")
		}
		for _, c := range []*command{a, b} {
			if c.b != nil || c.err != nil {
				t.Errorf("after %s a free command holds %d bytes and %v", what, len(c.b), c.err)
			}
		}
	}
}
