// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64 || riscv64)

package mem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapQuick is a system call of which the scheduler does not hear. The first one of
// which it does, after all goroutines have slept, wakes the runtime's monitor
// thread, which then looks around every 20 microseconds for a while: for each
// connection, where connections come one by one.
func mapQuick(fd int, offset int64, length, flags int) (unsafe.Pointer, error) {
	p, _, errno := unix.RawSyscall6(unix.SYS_MMAP, 0, uintptr(length), unix.PROT_READ|unix.PROT_WRITE, uintptr(flags), uintptr(fd), uintptr(offset))
	if errno != 0 {
		return nil, errno
	}
	return *(*unsafe.Pointer)(unsafe.Pointer(&p)), nil // memory that is not Go's
}
