// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cdev

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pipe returns a File on the reading end of a pipe, and the writing end.
func pipe(t *testing.T) (*File, *os.File) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatalf("unix.Pipe2: %v", err)
	}
	f, err := New(p[0], "pipe")
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	w := os.NewFile(uintptr(p[1]), "pipe")
	t.Cleanup(func() { f.Close(); w.Close() })
	return f, w
}

func readByte(b *byte) func(fd uintptr) bool {
	return func(fd uintptr) bool {
		var buf [1]byte
		n, err := unix.Read(int(fd), buf[:])
		*b = buf[0]
		return n == 1 || err != nil && err != unix.EAGAIN
	}
}

func TestWaitReads(t *testing.T) {
	f, w := pipe(t)
	time.AfterFunc(10*time.Millisecond, func() { w.Write([]byte{42}) })
	var b byte
	if err := f.Wait(context.Background(), readByte(&b)); err != nil || b != 42 {
		t.Fatalf("Wait = %v and read %d, want nil and 42", err, b)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	f, w := pipe(t)
	var b byte
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	err := f.Wait(ctx, readByte(&b))
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("Wait with a deadline = %v, want %v", err, context.DeadlineExceeded)
	}
	ctx2, cancel2 := context.WithCancelCause(context.Background())
	time.AfterFunc(10*time.Millisecond, func() { cancel2(io.EOF) })
	if err := f.Wait(ctx2, readByte(&b)); !errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) || err.Error() != "EOF" {
		t.Fatalf("Wait with the cause io.EOF = %v, want context.Canceled with its text", err)
	}
	// The deadline must not affect the next wait.
	time.AfterFunc(10*time.Millisecond, func() { w.Write([]byte{1}) })
	if err := f.Wait(context.Background(), readByte(&b)); err != nil || b != 1 {
		t.Fatalf("next Wait = %v and read %d, want nil and 1", err, b)
	}
}

// TestContextError checks what errors.Is finds in the error of a context that has ended.
func TestContextError(t *testing.T) {
	cause := errors.New("because")
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	late, stop := context.WithTimeoutCause(context.Background(), 0, cause)
	defer stop()
	for name, tc := range map[string]struct {
		ctx     context.Context
		want    error
		timeout bool
	}{
		"cancelled":   {cancelled, context.Canceled, false},
		"out of time": {late, context.DeadlineExceeded, true},
	} {
		err := ContextError(tc.ctx)
		if !errors.Is(err, tc.want) || errors.Is(err, cause) || err.Error() != "because" || os.IsTimeout(err) != tc.timeout || errors.Is(err, os.ErrDeadlineExceeded) != tc.timeout {
			t.Errorf("%s: ContextError = %v, timeout %t, want %v with the text of the cause, timeout %t", name, err, os.IsTimeout(err), tc.want, tc.timeout)
		}
	}
}

// TestWrites checks that the device receives equal commands in each mode of system calls.
func TestWrites(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatalf("unix.Pipe2: %v", err)
	}
	r := os.NewFile(uintptr(p[0]), "pipe")
	defer r.Close()
	f, err := New(p[1], "pipe")
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	defer f.Close()
	for name, mode := range map[string]Mode{"Ordinary": Ordinary, "Raw": Raw, "SignalsBlocked": SignalsBlocked} {
		write := func(b []byte) error { return f.WriteMode(b, mode) }
		buf := make([]byte, 99)
		if err := write([]byte(name)); err != nil {
			t.Fatalf("WriteMode(%s): %v", name, err)
		}
		if n, err := r.Read(buf); err != nil || string(buf[:n]) != name {
			t.Fatalf("Read after WriteMode(%s) = %q, %v, want %q", name, buf[:n], err, name)
		}
		for err = nil; err == nil; err = write(make([]byte, 1<<12)) {
		}
		if err != syscall.EAGAIN {
			t.Errorf("WriteMode(%s) to a full pipe = %v, want EAGAIN", name, err)
		}
		drain(t, p[0])
	}
	f.Close()
	if err := f.WriteMode([]byte{1}, Raw); err != net.ErrClosed {
		t.Errorf("WriteMode after Close = %v, want %v", err, net.ErrClosed)
	}
}

// drain empties a pipe.
func drain(t *testing.T, fd int) {
	t.Helper()
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatalf("unix.SetNonblock(fd, true): %v", err)
	}
	for buf := make([]byte, 1<<16); ; {
		if n, err := unix.Read(fd, buf); n <= 0 {
			if err != unix.EAGAIN {
				t.Fatalf("unix.Read of the pipe = %v, want EAGAIN", err)
			}
			break
		}
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatalf("unix.SetNonblock(fd, false): %v", err)
	}
}

// TestWake checks that Wake makes a waiter try again, whether or not its context can end.
// A Wake without a waiter has no effect. Wake does not hide the end of a context.
func TestWake(t *testing.T) {
	f, w := pipe(t)
	var there atomic.Bool
	looked := make(chan struct{}, 99)
	look := func(uintptr) bool {
		looked <- struct{}{}
		return there.Load()
	}
	ending, end := context.WithCancel(context.Background())
	for _, ctx := range []context.Context{context.Background(), ending} {
		there.Store(false)
		done := make(chan error, 1)
		go func() { done <- f.Wait(ctx, look) }()
		<-looked
		f.Wake()
		<-looked
		there.Store(true)
		f.Wake()
		if err := <-done; err != nil {
			t.Fatalf("Wait after Wake: %v", err)
		}
		f.Wake()
		f.Wake()
		time.AfterFunc(10*time.Millisecond, func() { w.Write([]byte{7}) })
		var b byte
		if err := f.Wait(ctx, readByte(&b)); err != nil || b != 7 {
			t.Fatalf("Wait after a Wake without a waiter = %v and read %d, want nil and 7", err, b)
		}
	}
	there.Store(false)
	done := make(chan error, 1)
	go func() { done <- f.Wait(ending, look) }()
	var all sync.WaitGroup
	all.Go(end)
	for range 4 {
		all.Go(f.Wake)
	}
	all.Wait()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Wait = %v, want %v", err, context.Canceled)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Wait has not returned 10 s after the end of its context")
	}
}

func TestQueuedWaiterLeavesWithItsContext(t *testing.T) {
	f, _ := pipe(t)
	hold, release := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { var b byte; done <- f.Wait(hold, readByte(&b)) }()
	for f.turn.users.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	var b byte
	if err := f.Wait(ctx, readByte(&b)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Wait behind another one = %v, want %v", err, context.DeadlineExceeded)
	}
	release()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("first Wait = %v, want %v", err, context.Canceled)
	}
}

// TestManyWaiters detects a deadline that ends the wrong wait, and a lost wake-up. Waiters with short
// contexts and waiters without a deadline share a pipe. Every written byte must be read.
func TestManyWaiters(t *testing.T) {
	f, w := pipe(t)
	const bytes = 2000
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := 0
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for i := range 8 {
		wg.Go(func() {
			for {
				mu.Lock()
				enough := got == bytes
				mu.Unlock()
				if enough {
					return
				}
				one, stop := ctx, context.CancelFunc(func() {})
				if i%2 == 0 {
					one, stop = context.WithTimeout(ctx, 200*time.Microsecond)
				}
				var b byte
				err := f.Wait(one, readByte(&b))
				stop()
				switch {
				case err == nil:
					mu.Lock()
					if got++; got == bytes {
						f.Close()
					}
					mu.Unlock()
				case errors.Is(err, net.ErrClosed):
					return
				case ctx.Err() != nil:
					t.Error("Wait has not read all bytes after 30 s: a wake-up was lost")
					return
				case i%2 == 1:
					t.Errorf("Wait without a deadline = %v, want nil", err)
					return
				}
			}
		})
	}
	for range bytes {
		w.Write([]byte{1})
	}
	wg.Wait()
	if got != bytes {
		t.Errorf("the waiters read %d bytes, want %d", got, bytes)
	}
}

func TestCloseEndsWaits(t *testing.T) {
	f, _ := pipe(t)
	time.AfterFunc(10*time.Millisecond, func() { f.Close() })
	var b byte
	if err := f.Wait(context.Background(), readByte(&b)); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("Wait during Close = %v, want %v", err, net.ErrClosed)
	}
	if err := f.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write after Close = %v, want %v", err, net.ErrClosed)
	}
	if err := f.Close(); err != nil {
		t.Errorf("second Close = %v, want nil", err)
	}
}

func TestOpenNamesTheMissingFile(t *testing.T) {
	_, err := Open("/nonexistent/device")
	var pe *fs.PathError
	if !errors.As(err, &pe) || pe.Path != "/nonexistent/device" || !errors.Is(err, syscall.ENOENT) {
		t.Fatalf("Open = %v, want ENOENT with the path", err)
	}
}

func TestWrite(t *testing.T) {
	f, err := Open("/dev/null")
	if err != nil {
		t.Skip(err) // some machines have no /dev/null
	}
	defer f.Close()
	if err := f.Write([]byte("hello")); err != nil {
		t.Errorf("f.Write: %v", err)
	}
	r, _ := pipe(t)
	if err := r.Write([]byte("x")); !errors.Is(err, syscall.EBADF) {
		t.Errorf("Write to a reading end = %v, want EBADF", err)
	}
}
