// SPDX-License-Identifier: Apache-2.0

//go:build linux && !(amd64 || arm64 || riscv64)

package mem

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapFile leaves the details of mmap(2) on other processors to package unix.
func mapFile(fd int, offset int64, length int) (unsafe.Pointer, error) {
	return unix.MmapPtr(fd, offset, nil, uintptr(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}
