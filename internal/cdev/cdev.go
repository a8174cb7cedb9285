// SPDX-License-Identifier: Apache-2.0

// Package cdev puts character devices on the runtime poller, like sockets. A goroutine waits for
// them with a context, and occupies no thread. All RDMA files are such devices:
// /dev/infiniband/rdma_cm, completion channels and asynchronous event files.
package cdev

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"purerdma/internal/leak"
)

// File is an open character device. Its methods may be called concurrently. Close ends all waits.
//
// Waiters take turns, because a deadline belongs to the file and not to the waiter. To wake the
// holder of the turn, a goroutine sets a deadline. The holder resets it and checks the reason. A
// waiter whose context ends while it queues leaves the queue at once.
type File struct {
	f    *os.File
	rc   syscall.RawConn
	turn Turn // held while a goroutine waits on the file
	leak *leak.Entry

	closed atomic.Bool

	waiter struct { // the holder of the turn
		ctx context.Context
		try func(fd uintptr) bool
	}
	hook Hook // wakes the waiter when its context ends

	// Method values, created once.
	attempt func(fd uintptr) bool // tryOnce
	wake    func()                // Wake

	mu    sync.Mutex
	woken bool // Wake has set a deadline that is not yet reset
}

// opening bounds the number of concurrent open calls. An open takes longer than the scheduler waits
// for a system call, so each occupies a thread, which the runtime keeps. Opening no more at once
// than there are processors is also faster. Processors are counted once, at the start. The wait for
// a turn ignores the context, because open(2) has none.
var opening = make(chan struct{}, runtime.GOMAXPROCS(0))

// Open opens the device for reading and writing. Its errors are the errors of open(2), as
// *fs.PathError.
func Open(path string) (*File, error) {
	opening <- struct{}{}
	fd, err := open(path)
	<-opening
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return New(fd, path)
}

// New takes over an open file descriptor, makes it non-blocking and registers it
// with the runtime poller. On error the descriptor has been closed.
func New(fd int, name string) (*File, error) {
	// os.NewFile reads O_NONBLOCK to decide whether a file is pollable, so the flag must be set
	// first.
	if err := setNonblock(fd); err != nil {
		closeFD(fd)
		return nil, &fs.PathError{Op: "set O_NONBLOCK", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	rc, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	dev := &File{f: f, rc: rc, leak: leak.Track("file", name)}
	dev.turn.Init()
	dev.attempt, dev.wake = dev.tryOnce, dev.Wake
	return dev, nil
}

// Name returns the name that the file was opened or made with.
func (f *File) Name() string { return f.f.Name() }

// Control runs fn with the file descriptor, which stays open until fn returns. It does not wait for
// a turn, so fn may run while others wait. After Close it returns net.ErrClosed.
func (f *File) Control(fn func(fd uintptr)) error {
	return f.mapErr(f.rc.Control(fn))
}

// Write makes one write(2) of b in mode Ordinary. For these devices a write is one command, which
// is executed as a whole or not at all. It may block inside the kernel. The error is the bare
// errno, or net.ErrClosed after Close.
func (f *File) Write(b []byte) error { return f.WriteMode(b, Ordinary) }

// WriteMode is Write in any mode.
func (f *File) WriteMode(b []byte, mode Mode) error {
	c := commands.Get().(*command)
	c.b, c.mode = b, mode
	err := f.mapErr(f.rc.Control(c.control))
	if err == nil {
		err = c.err
	}
	c.b, c.err = nil, nil
	commands.Put(c)
	return err
}

// Wait calls try until it returns true, at once and then each time the device becomes readable. It
// returns nil after try returned true, and net.ErrClosed after Close. It returns the context's
// error when ctx ends first (os.ErrDeadlineExceeded if its deadline passed). At most one try runs
// at a time. If ctx has already ended, it does not wait, but calls try once.
func (f *File) Wait(ctx context.Context, try func(fd uintptr) bool) error {
	if err := f.turn.Take(ctx); err != nil {
		return err
	}
	defer f.turn.Give()
	if ctx.Err() != nil {
		ok := false
		if err := f.Control(func(fd uintptr) { ok = try(fd) }); err != nil {
			return err
		}
		if !ok {
			return ContextError(ctx)
		}
		return nil
	}
	f.waiter.ctx, f.waiter.try = ctx, try
	err := f.read(f.attempt)
	for errors.Is(err, os.ErrDeadlineExceeded) && f.wasWoken() {
		if ctx.Err() != nil {
			err = ContextError(ctx)
			break
		}
		err = f.read(f.attempt)
	}
	f.waiter.ctx, f.waiter.try = nil, nil
	return err
}

// tryOnce is try for the waiter. It sets the hook only after try has failed, because most waits
// succeed at once.
func (f *File) tryOnce(fd uintptr) bool {
	if f.waiter.try(fd) {
		return true
	}
	f.hook.Set(f.waiter.ctx, f.wake)
	return false
}

// Wake makes the waiter in Wait or WriteWhenReadable try again, as if the device had become
// readable. It is for events that do not come from the kernel.
func (f *File) Wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.woken = true
	f.f.SetReadDeadline(time.Unix(1, 0))
}

// wasWoken reports whether Wake has ended a wait, and resets that.
func (f *File) wasWoken() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.woken {
		return false
	}
	f.woken = false
	f.f.SetReadDeadline(time.Time{})
	return true
}

// read calls try until it returns true, waiting for readability in between.
func (f *File) read(try func(fd uintptr) bool) error { return f.ReadDone(f.rc.Read(try), try) }

// Conn returns the RawConn of the file, for a caller with a wait loop of its own. Only one
// goroutine at a time may use it, and none may call Wait. Read of the RawConn calls its function
// for the first time after the poller has begun to watch the file, so it does not miss an event
// during that call. ReadDone takes its error.
func (f *File) Conn() syscall.RawConn { return f.rc }

// ReadDone completes a Read of Conn, whose error and function it takes. It returns
// os.ErrDeadlineExceeded after Interrupt and net.ErrClosed after Close.
func (f *File) ReadDone(err error, try func(fd uintptr) bool) error {
	pokeMonitor()
	if err == nil || f.closed.Load() || errors.Is(err, os.ErrDeadlineExceeded) {
		return f.mapErr(err)
	}
	// The poller does not wait for a device in error, such as a device that the kernel has removed.
	// Then try finds the cause.
	ok := false
	if cerr := f.Control(func(fd uintptr) { ok = try(fd) }); cerr != nil {
		return cerr
	}
	if !ok {
		return err
	}
	return nil
}

// WriteWhenReadable writes b, waiting as Wait does while the device returns EAGAIN. rdma_cm returns
// its events as responses to a write, and is readable if there are some. The error is the bare
// errno, or an error of Wait.
func (f *File) WriteWhenReadable(ctx context.Context, b []byte) error {
	c := commands.Get().(*command)
	c.b = b
	err := f.Wait(ctx, c.attempt)
	werr := c.err
	c.b, c.err = nil, nil
	commands.Put(c)
	if err != nil {
		return err
	}
	return werr
}

// Close closes the file. It may be called more than once. Waits and later calls return
// net.ErrClosed. It returns when the last Control or Write has returned, so a command that is stuck
// in the kernel delays it.
func (f *File) Close() error {
	if f.closed.Swap(true) {
		return nil
	}
	f.leak.Done()
	f.hook.Close()
	return f.f.Close()
}

// mapErr translates the error of a closed file, because a RawConn of package os returns an error
// that programs cannot compare with.
func (f *File) mapErr(err error) error {
	if err != nil && f.closed.Load() {
		return net.ErrClosed
	}
	return err
}

// NeedContext panics if ctx is nil, as package net does. Without it, a wait would panic only if it
// has to wait.
func NeedContext(ctx context.Context) {
	if ctx == nil {
		panic("nil context")
	}
}

// ContextError returns the error of a context that has ended, with the text of its
// cause. errors.Is finds ctx.Err(), and os.ErrDeadlineExceeded as well if a deadline has
// passed, as for a net.Conn. It does not find the cause: an io.EOF there, for example,
// would look like the end of a connection. context.Cause returns it.
func ContextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == context.DeadlineExceeded {
		return deadlineError{contextError{err, cause}}
	}
	if cause == err {
		return err
	}
	return contextError{err, cause}
}

// contextError is the error of a context with the text of its cause.
type contextError struct{ err, cause error }

func (e contextError) Error() string { return e.cause.Error() }
func (e contextError) Unwrap() error { return e.err }

// deadlineError is a passed context deadline that os.IsTimeout and
// errors.Is(err, os.ErrDeadlineExceeded) recognize.
type deadlineError struct{ contextError }

func (e deadlineError) Unwrap() []error { return []error{e.err, os.ErrDeadlineExceeded} }
func (e deadlineError) Timeout() bool   { return true }
func (e deadlineError) Temporary() bool { return true }
