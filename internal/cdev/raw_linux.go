// SPDX-License-Identifier: Apache-2.0

package cdev

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// WriteRaw is write(2) as the computation that it is: see File.WriteQuick.
func WriteRaw(fd int, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// ReadQuick is read(2) on a file that does not block, as the computation that it
// is: the scheduler does not hear of it (see File.WriteQuick).
func ReadQuick(fd uintptr, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}
