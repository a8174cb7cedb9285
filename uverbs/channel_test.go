// SPDX-License-Identifier: Apache-2.0

//go:build linux

package uverbs

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/internal/cdev"
)

// TestCompChannelNext reads events of a completion channel. One of the events is truncated.
func TestCompChannelNext(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_DIRECT); err != nil {
		t.Fatalf("unix.Pipe2: %v", err)
	}
	dev, err := cdev.New(p[0], "pipe")
	if err != nil {
		t.Fatalf("cdev.New: %v", err)
	}
	t.Cleanup(func() { dev.Close() })
	c := &CompChannel{dev: dev}
	unix.Write(p[1], []byte{7, 0, 0, 0, 0, 0, 0, 0})
	unix.Write(p[1], []byte{8, 0, 0})
	if handle, err := c.Next(t.Context()); handle != 7 || err != nil {
		t.Errorf("Next = %d, %v, want 7, nil", handle, err)
	}
	if _, err := c.Next(t.Context()); err != io.ErrUnexpectedEOF {
		t.Errorf("Next of a truncated event = %v, want %v", err, io.ErrUnexpectedEOF)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Next(ended); err != context.Canceled {
		t.Errorf("Next with a canceled context = %v, want %v", err, context.Canceled)
	}
	unix.Close(p[1])
	if _, err := c.Next(t.Context()); err != unix.EIO {
		t.Errorf("Next of a removed device = %v, want EIO", err)
	}
}

// TestCloseDuringRead closes a file while the reader of an event file examines a queue. The
// reader needs a lock whose holder maps memory of the file. The three goroutines must not
// deadlock.
func TestCloseDuringRead(t *testing.T) {
	f := &File{t: closable{}, channels: map[eventChannel]struct{}{}}
	c := &CompChannel{f: f, dev: eventFD(t)}
	if err := f.adopt(c); err != nil {
		t.Fatalf("File.adopt: %v", err)
	}
	looks, mapped, read := make(chan struct{}), make(chan error), make(chan error, 1)
	go func() {
		read <- c.dev.Conn().Read(func(uintptr) bool {
			close(looks)
			<-mapped // like the lock of a queue that is being resized
			return true
		})
	}()
	<-looks
	closed := make(chan error, 1)
	go func() { closed <- f.Close() }()
	for !f.Closed() {
		runtime.Gosched()
	}
	go func() {
		_, err := f.Mmap(0, 1)
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("Mmap of a closed file = %v, want net.ErrClosed", err)
		}
		close(mapped)
	}()
	for what, done := range map[string]chan error{"Close": closed, "Read": read} {
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s hangs", what)
		}
	}
}

// TestEndByReader ends the context in the reader of an event file, which examines a queue, while another goroutine
// closes the file.
func TestEndByReader(t *testing.T) {
	f := &File{t: closable{}, channels: map[eventChannel]struct{}{}}
	c := &CompChannel{f: f, dev: eventFD(t)}
	if err := f.adopt(c); err != nil {
		t.Fatalf("File.adopt: %v", err)
	}
	closed, ended := make(chan error), make(chan error, 1)
	go c.dev.Conn().Read(func(uintptr) bool {
		go func() { closed <- f.Close() }()
		for !f.Closed() {
			runtime.Gosched()
		}
		ended <- f.End()
		return true
	})
	for what, done := range map[string]chan error{"Close": closed, "End": ended} {
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s hangs", what)
		}
	}
}

// closable is a device that can be closed, and does nothing else.
type closable struct{ Transport }

func (closable) Close() error { return nil }
