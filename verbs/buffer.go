// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"runtime"
	"sync"
	"unsafe"

	"purerdma/internal/mem"
)

// buffer is memory that does not move until free: mapped for the purpose, a piece of
// what was mapped for another buffer, or Go memory that is pinned.
type buffer struct {
	bytes  []byte
	region *mem.Region // that was mapped for it, or nil
	users  int         // of the region, itself included; guarded by regions.mu
	owner  *buffer     // of the region that it is a piece of, or nil
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
	b := &buffer{bytes: r.Bytes(), region: r}
	regions.add(b)
	return b, nil
}

// keepBuffer keeps memory of the user's where it is.
func keepBuffer(b []byte) *buffer {
	buf := &buffer{bytes: b}
	if buf.owner = regions.hold(buf.addr()); buf.owner != nil {
		return buf
	}
	buf.pin.Pin(unsafe.SliceData(b))
	pinned.Store(buf, struct{}{})
	return buf
}

// addr returns the address of the first byte, which is true until free.
func (b *buffer) addr() uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b.bytes))))
}

// ours says whether the memory is not the Go heap's, and may go with free.
func (b *buffer) ours() bool { return b.region != nil || b.owner != nil }

// free unpins, or unmaps if nobody else uses the region. It must be called once.
func (b *buffer) free() error {
	switch {
	case b.owner != nil:
		return b.owner.free()
	case b.region == nil:
		pinned.Delete(b)
		b.pin.Unpin()
		return nil
	case regions.drop(b):
		return b.region.Free()
	}
	return nil
}
