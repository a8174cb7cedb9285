// SPDX-License-Identifier: Apache-2.0

package cdev

import (
	"errors"
	"io"
	"math/bits"
	"runtime"

	"golang.org/x/sys/unix"
)

func open(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func setNonblock(fd int) error { return unix.SetNonblock(fd, true) }

func closeFD(fd int) { unix.Close(fd) }

func write(fd uintptr, b []byte) error { return repeat(unix.Write, fd, b) }

// writeQuick is write without a word to the scheduler.
func writeQuick(fd uintptr, b []byte) error { return repeat(WriteRaw, fd, b) }

// writeUndisturbed is write on a thread that takes no signals meanwhile.
func writeUndisturbed(fd uintptr, b []byte) error {
	return undisturbed(func() error { return write(fd, b) })
}

// firstRealTime is the kernel's SIGRTMIN.
const firstRealTime = 32

// undisturbed runs fn with all signals blocked but two. Those of the thread come
// afterwards, those of the process other threads take. The two are the C library's and Go's
// for what all threads do at once, as setuid(2): whoever asks for that waits for each of them.
func undisturbed(fn func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	const word = bits.UintSize // the set is of unsigned longs
	for sig := firstRealTime; sig <= firstRealTime+1; sig++ {
		all.Val[(sig-1)/word] &^= 1 << ((sig - 1) % word)
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before); err != nil {
		return err
	}
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	return fn()
}

func repeat(write func(fd int, b []byte) (int, error), fd uintptr, b []byte) error {
	for {
		n, err := write(int(fd), b)
		switch {
		case errors.Is(err, unix.EINTR):
			// A command that a signal interrupted has had no effect: the kernel's
			// RDMA commands are restartable, but for siw's CONNECT (WriteUndisturbed).
			continue
		case err != nil:
			return err
		case n != len(b):
			return io.ErrShortWrite
		}
		return nil
	}
}
