// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// udmabufCreate mirrors struct udmabuf_create (linux/udmabuf.h).
type udmabufCreate struct {
	Memfd, Flags uint32
	Offset, Size uint64
}

// Constants of linux/udmabuf.h.
const (
	udmabufCreateCommand = 0x40187542 // UDMABUF_CREATE
	udmabufCloexec       = 1          // UDMABUF_FLAGS_CLOEXEC
)

// DMABuf returns a dma-buf of size bytes, a multiple of the page size, and a mapping of its
// memory. The memory belongs to a memfd (/dev/udmabuf). A driver that registers the dma-buf treats it as
// memory of another device. The dma-buf and the mapping are closed at the end of the test.
func DMABuf(t testing.TB, size int) (*os.File, []byte) {
	t.Helper()
	fd, err := unix.MemfdCreate("dmabuf", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatalf("unix.MemfdCreate: %v", err)
	}
	memory := os.NewFile(uintptr(fd), "memfd")
	defer memory.Close()
	if err := memory.Truncate(int64(size)); err != nil {
		t.Fatalf("memory.Truncate(int64(size)): %v", err)
	}
	if _, err := unix.FcntlInt(memory.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		t.Fatalf("unix.FcntlInt: %v", err)
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatalf("unix.Mmap: %v", err)
	}
	t.Cleanup(func() { unix.Munmap(mem) })
	dev, err := os.OpenFile("/dev/udmabuf", os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("os.OpenFile: %v", err)
	}
	defer dev.Close()
	arg := udmabufCreate{Memfd: uint32(fd), Flags: udmabufCloexec, Size: uint64(size)}
	buf, _, errno := unix.Syscall(unix.SYS_IOCTL, dev.Fd(), udmabufCreateCommand, uintptr(unsafe.Pointer(&arg)))
	if errno != 0 {
		t.Fatalf("UDMABUF_CREATE: %v", errno)
	}
	f := os.NewFile(buf, "dma-buf")
	t.Cleanup(func() { f.Close() })
	return f, mem
}
