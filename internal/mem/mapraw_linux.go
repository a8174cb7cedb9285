// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64 || riscv64)

package mem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapRaw is mmap(2) as a raw system call. After all goroutines have slept, the first ordinary call
// wakes the runtime's monitor thread, which then runs every 20 microseconds for a while. That would
// happen for each connection, if connections come one by one.
func mapRaw(fd int, offset int64, length, prot, flags int) (unsafe.Pointer, error) {
	p, _, errno := unix.RawSyscall6(unix.SYS_MMAP, 0, uintptr(length), uintptr(prot), uintptr(flags), uintptr(fd), uintptr(offset))
	if errno != 0 {
		return nil, errno
	}
	return *(*unsafe.Pointer)(unsafe.Pointer(&p)), nil // memory that is not Go's
}
