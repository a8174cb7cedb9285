// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"runtime"
	"sync"
	"unsafe"

	"purerdma/internal/mem"
)

// buffer is memory that does not move until free: mapped for the purpose, or Go
// memory that is pinned.
type buffer struct {
	bytes  []byte
	region *mem.Region // nil if pinned
	pin    runtime.Pinner
}

// pinned holds the buffers that are pinned. The runtime crashes a program that
// loses a Pinner which still pins something, and a program that forgets to
// close an MR should only leak it.
var pinned sync.Map // *buffer -> struct{}

func allocBuffer(size int, huge bool) (*buffer, error) {
	alloc := mem.Alloc
	if huge {
		alloc = mem.AllocHuge
	}
	r, err := alloc(size)
	if err != nil {
		return nil, err
	}
	return &buffer{bytes: r.Bytes(), region: r}, nil
}

func pinBuffer(b []byte) *buffer {
	buf := &buffer{bytes: b}
	buf.pin.Pin(unsafe.SliceData(b))
	pinned.Store(buf, struct{}{})
	return buf
}

// addr returns the address of the first byte, which is true until free.
func (b *buffer) addr() uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b.bytes))))
}

// free unmaps or unpins. It must be called once.
func (b *buffer) free() error {
	if b.region != nil {
		return b.region.Free()
	}
	pinned.Delete(b)
	b.pin.Unpin()
	return nil
}
