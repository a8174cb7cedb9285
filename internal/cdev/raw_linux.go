// SPDX-License-Identifier: Apache-2.0

package cdev

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Write makes one write(2). A call that a signal interrupted returns EINTR.
func Write(fd uintptr, b []byte, mode Mode) (n int, err error) {
	switch mode {
	case Raw:
		n, _, errno := unix.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		if errno != 0 {
			return -1, errno
		}
		return int(n), nil
	case SignalsBlocked:
		err = blockSignals(func() error {
			n, err = unix.Write(int(fd), b)
			return err
		})
		return n, err
	}
	return unix.Write(int(fd), b)
}

// Ioctl makes one ioctl(2), in mode Ordinary or Raw.
func Ioctl(fd uintptr, code uintptr, arg unsafe.Pointer, mode Mode) error {
	var errno unix.Errno
	if mode == Raw {
		_, _, errno = unix.RawSyscall(unix.SYS_IOCTL, fd, code, uintptr(arg))
	} else {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, code, uintptr(arg))
	}
	if errno != 0 {
		return errno
	}
	return nil
}

// ReadRaw makes one read(2), in mode Raw, of a file that does not block.
func ReadRaw(fd uintptr, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}
