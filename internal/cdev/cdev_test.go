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
		t.Fatal(err)
	}
	f, err := New(p[0], "pipe")
	if err != nil {
		t.Fatal(err)
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
		t.Fatalf("read %d, %v", b, err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	f, w := pipe(t)
	var b byte
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	err := f.Wait(ctx, readByte(&b))
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("deadline gave %v", err)
	}
	ctx2, cancel2 := context.WithCancelCause(context.Background())
	time.AfterFunc(10*time.Millisecond, func() { cancel2(io.EOF) })
	if err := f.Wait(ctx2, readByte(&b)); !errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) || err.Error() != "EOF" {
		t.Fatalf("Wait with the cause io.EOF = %v, want context.Canceled with its text", err)
	}
	// The deadline must not stay behind.
	time.AfterFunc(10*time.Millisecond, func() { w.Write([]byte{1}) })
	if err := f.Wait(context.Background(), readByte(&b)); err != nil || b != 1 {
		t.Fatalf("the next wait gave %v", err)
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

// TestWrites: a command that the scheduler hears of and one that it does not are
// the same to the device.
func TestWrites(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	r := os.NewFile(uintptr(p[0]), "pipe")
	defer r.Close()
	f, err := New(p[1], "pipe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, mode := range map[string]Mode{"Ordinary": Ordinary, "Raw": Raw, "SignalsBlocked": SignalsBlocked} {
		write := func(b []byte) error { return f.WriteMode(b, mode) }
		buf := make([]byte, 99)
		if err := write([]byte(name)); err != nil {
			t.Fatal(name, err)
		}
		if n, err := r.Read(buf); err != nil || string(buf[:n]) != name {
			t.Fatalf("%s: read %q, %v", name, buf[:n], err)
		}
		for err = nil; err == nil; err = write(make([]byte, 1<<12)) {
		}
		if err != syscall.EAGAIN {
			t.Errorf("%s to a full pipe: %v", name, err)
		}
		drain(t, p[0])
	}
	f.Close()
	if err := f.WriteMode([]byte{1}, Raw); err != net.ErrClosed {
		t.Errorf("after Close: %v", err)
	}
}

// drain empties a pipe.
func drain(t *testing.T, fd int) {
	t.Helper()
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for buf := make([]byte, 1<<16); ; {
		if n, err := unix.Read(fd, buf); n <= 0 {
			if err != unix.EAGAIN {
				t.Fatal(err)
			}
			break
		}
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
}

// TestWake: what the kernel does not tell is found by who waits, with or without a
// context that can end; a Wake that nobody waited for changes nothing, and neither
// hides the end of a context.
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
			t.Fatal(err)
		}
		f.Wake()
		f.Wake()
		time.AfterFunc(10*time.Millisecond, func() { w.Write([]byte{7}) })
		var b byte
		if err := f.Wait(ctx, readByte(&b)); err != nil || b != 7 {
			t.Fatalf("after a Wake for nobody: read %d, %v", b, err)
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
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the end of the context was lost")
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
		t.Fatalf("the queued waiter got %v", err)
	}
	release()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("the first waiter got %v", err)
	}
}

// TestManyWaiters shows a deadline that ends the wrong wait, and a lost wake-up:
// waiters with short contexts and waiters without share a pipe; every byte
// written must be read by somebody.
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
					t.Error("a wake-up was lost")
					return
				case i%2 == 1:
					t.Errorf("a waiter without a deadline got %v", err)
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
		t.Errorf("%d of %d bytes read", got, bytes)
	}
}

func TestCloseEndsWaits(t *testing.T) {
	f, _ := pipe(t)
	time.AfterFunc(10*time.Millisecond, func() { f.Close() })
	var b byte
	if err := f.Wait(context.Background(), readByte(&b)); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("wait gave %v", err)
	}
	if err := f.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write gave %v", err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("second close gave %v", err)
	}
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	_, err := Open("/nonexistent/device")
	var pe *fs.PathError
	if !errors.As(err, &pe) || pe.Path != "/nonexistent/device" || !errors.Is(err, syscall.ENOENT) {
		t.Fatalf("got %v", err)
	}
}

func TestWrite(t *testing.T) {
	f, err := Open("/dev/null")
	if err != nil {
		t.Skip(err) // not on every machine
	}
	defer f.Close()
	if err := f.Write([]byte("hello")); err != nil {
		t.Error(err)
	}
	r, _ := pipe(t)
	if err := r.Write([]byte("x")); !errors.Is(err, syscall.EBADF) {
		t.Errorf("write to a reading end gave %v", err)
	}
}
