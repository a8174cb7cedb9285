// SPDX-License-Identifier: Apache-2.0

package udmabuf

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// create mirrors struct udmabuf_create (linux/udmabuf.h).
type create struct {
	Memfd, Flags uint32
	Offset, Size uint64
}

// Constants of linux/udmabuf.h.
const (
	createCommand = 0x40187542 // UDMABUF_CREATE
	cloexec       = 1          // UDMABUF_FLAGS_CLOEXEC
)

// Buffer is a dma-buf with a mapping of its memory.
type Buffer struct {
	File *os.File // the dma-buf
	Mem  []byte
}

// New returns a dma-buf of size bytes, a multiple of the page size. The caller closes it. The error wraps
// os.ErrNotExist if the kernel has no /dev/udmabuf.
func New(size int) (_ *Buffer, err error) {
	dev, err := os.OpenFile("/dev/udmabuf", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	fd, err := unix.MemfdCreate("dmabuf", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	memory := os.NewFile(uintptr(fd), "memfd")
	defer memory.Close()
	if err := memory.Truncate(int64(size)); err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(memory.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		return nil, fmt.Errorf("seal a memfd: %w", err)
	}
	b := new(Buffer)
	if b.Mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("map a memfd: %w", err)
	}
	arg := create{Memfd: uint32(fd), Flags: cloexec, Size: uint64(size)}
	buf, _, errno := unix.Syscall(unix.SYS_IOCTL, dev.Fd(), createCommand, uintptr(unsafe.Pointer(&arg)))
	if errno != 0 {
		return nil, errors.Join(fmt.Errorf("UDMABUF_CREATE: %w", errno), b.Close())
	}
	b.File = os.NewFile(buf, "dma-buf")
	return b, nil
}

// Close unmaps the memory and closes the dma-buf. Registrations of it keep the memory.
func (b *Buffer) Close() error {
	err := unix.Munmap(b.Mem)
	if b.File != nil {
		err = errors.Join(err, b.File.Close())
	}
	return err
}
