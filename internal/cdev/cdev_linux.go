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

// firstRealTime is the kernel's SIGRTMIN.
const firstRealTime = 32

// blockSignals runs fn with all signals blocked but two. Signals of the thread are delivered later.
// Other threads take the signals of the process. The two are signals of the C library and of Go,
// for operations on all threads such as setuid(2), which wait for each thread.
func blockSignals(fn func() error) error {
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

// writeAll makes one write(2) of b, and repeats it if a signal interrupts it, because a command
// that a signal interrupted has had no effect. The kernel's RDMA commands can be restarted. siw's
// CONNECT is the exception (SignalsBlocked).
func writeAll(fd uintptr, b []byte, mode Mode) error {
	for {
		n, err := Write(fd, b, mode)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n != len(b):
			return io.ErrShortWrite
		}
		return nil
	}
}
