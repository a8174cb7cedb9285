// SPDX-License-Identifier: Apache-2.0

//go:build linux && !(amd64 || arm64 || riscv64)

package mem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapRaw leaves the details of mmap(2) on other processors to package unix.
func mapRaw(fd int, offset int64, length, prot, flags int) (unsafe.Pointer, error) {
	return unix.MmapPtr(fd, offset, nil, uintptr(length), prot, flags)
}
