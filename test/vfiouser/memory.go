// SPDX-License-Identifier: Apache-2.0

//go:build linux

package vfiouser

import (
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// A Memory is the client's memory, addressed by DMA address.
//
// The lock passed to NewMemory must be held for calls of its methods, and while slices from
// Bytes are used. The Server holds the lock when it maps and unmaps memory, so that unmapped
// memory is not in use.
type Memory struct {
	lock    sync.Locker
	windows []window // ordered by address, without overlaps
	last    int      // the window that Bytes found last
}

// A window is a range of addresses with its memory. A range that the client does not share, or
// does not allow to be written, such as ROM, has no memory.
type window struct {
	addr, size uint64
	bytes      []byte
}

// maxWindows is the maximum number of a client's mappings.
const maxWindows = 4096

// NewMemory returns an empty Memory for one Server. The users of the memory must hold lock.
func NewMemory(lock sync.Locker) *Memory { return &Memory{lock: lock} }

// Bytes returns the n bytes of memory at a DMA address, or nil if they are not mapped in one
// piece.
func (m *Memory) Bytes(addr uint64, n int) []byte {
	if n < 0 {
		return nil
	}
	if m.last < len(m.windows) {
		if b := m.windows[m.last].slice(addr, n); b != nil {
			return b
		}
	}
	i, found := slices.BinarySearchFunc(m.windows, addr, func(w window, addr uint64) int {
		switch {
		case w.addr > addr:
			return 1
		case w.addr+(w.size-1) < addr:
			return -1
		}
		return 0
	})
	if !found {
		return nil
	}
	m.last = i
	return m.windows[i].slice(addr, n)
}

func (w *window) slice(addr uint64, n int) []byte {
	off := addr - w.addr
	if w.bytes == nil || addr < w.addr || off >= w.size || uint64(n) > w.size-off {
		return nil
	}
	return w.bytes[off : off+uint64(n) : off+uint64(n)]
}

// mapping is the contents of a DMA_MAP message.
type mapping struct {
	addr, size, offset  uint64
	readable, writeable bool
}

// add maps memory of the file fd, -1 for none.
func (m *Memory) add(q mapping, fd int) unix.Errno {
	const page = 4 << 10
	if q.size == 0 || q.addr+(q.size-1) < q.addr || (q.addr|q.size|q.offset)%page != 0 || q.size > 1<<46 || q.offset > 1<<46 {
		return unix.EINVAL
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	i, _ := slices.BinarySearchFunc(m.windows, q.addr, func(w window, addr uint64) int {
		if w.addr+(w.size-1) < addr {
			return -1
		}
		return 1
	})
	switch {
	case i < len(m.windows) && m.windows[i].addr <= q.addr+(q.size-1):
		return unix.EEXIST
	case len(m.windows) >= maxWindows:
		return unix.ENOSPC
	}
	w := window{addr: q.addr, size: q.size}
	if fd >= 0 && q.readable && q.writeable {
		// An access after the end of a file would cause a fatal signal.
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || uint64(st.Size) < q.offset+q.size {
			return unix.EINVAL
		}
		b, err := unix.Mmap(fd, int64(q.offset), int(q.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return errno(err)
		}
		w.bytes = b
	}
	m.windows = slices.Insert(m.windows, i, w)
	return 0
}

// remove unmaps the memory of one call of add.
func (m *Memory) remove(addr, size uint64) unix.Errno {
	m.lock.Lock()
	defer m.lock.Unlock()
	i := slices.IndexFunc(m.windows, func(w window) bool { return w.addr == addr && w.size == size })
	if i < 0 {
		return unix.EINVAL
	}
	w := m.windows[i]
	m.windows = slices.Delete(m.windows, i, i+1)
	if w.bytes == nil {
		return 0
	}
	return errno(unix.Munmap(w.bytes))
}

// removeAll unmaps everything.
func (m *Memory) removeAll() {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, w := range m.windows {
		if w.bytes != nil {
			unix.Munmap(w.bytes)
		}
	}
	m.windows = nil
}

// errno converts a system call's error for the protocol.
func errno(err error) unix.Errno {
	if err == nil {
		return 0
	}
	if e, ok := err.(unix.Errno); ok {
		return e
	}
	return unix.EIO
}
