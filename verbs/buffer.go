// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"runtime"
	"sync"
	"unsafe"

	"purerdma/internal/mem"
)

// buffer is memory that does not move until free. It is a mapping, a piece of another buffer's
// mapping, or pinned Go memory.
type buffer struct {
	bytes  []byte
	region *mem.Region // that was mapped for it, or nil
	users  int         // of the region, itself included. Guarded by regions.mu
	owner  *buffer     // of the region that it is a piece of, or nil
	pin    runtime.Pinner
}

// pinned holds the pinned buffers. The runtime crashes a program that loses a Pinner which still
// pins an object. A program that does not close an MR should only leak it.
var pinned = pinnedBuffers{set: make(map[*buffer]struct{})}

type pinnedBuffers struct {
	mu  sync.Mutex
	set map[*buffer]struct{}
}

func (p *pinnedBuffers) add(b *buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set[b] = struct{}{}
}

func (p *pinnedBuffers) remove(b *buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.set, b)
}

// anyNode lets the kernel choose the NUMA node of memory.
const anyNode = -1

// allocBuffer maps new memory, on a NUMA node if there is free memory and the kernel permits.
func allocBuffer(size int, huge bool, node int) (*buffer, error) {
	alloc := mem.Alloc
	if huge {
		alloc = mem.AllocHuge
	}
	r, err := alloc(size)
	if err != nil {
		return nil, err
	}
	if node >= 0 {
		_ = r.Prefer(node) // other memory does as well
	}
	b := &buffer{bytes: r.Bytes(), region: r}
	regions.add(b)
	return b, nil
}

// keepBuffer pins memory of the program.
func keepBuffer(b []byte) *buffer {
	buf := &buffer{bytes: b[:len(b):len(b)]} // the capacity is not registered
	if buf.owner = regions.hold(buf.addr()); buf.owner != nil {
		return buf
	}
	buf.pin.Pin(unsafe.SliceData(b))
	pinned.add(buf)
	return buf
}

// addr returns the address of the first byte, which is valid until free.
func (b *buffer) addr() uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b.bytes))))
}

// ours reports whether the memory is mapped, not the Go heap's, and may be unmapped by free.
func (b *buffer) ours() bool { return b.region != nil || b.owner != nil }

// free unpins the memory, or unmaps it if the region has no other users. It must be called once.
func (b *buffer) free() error {
	switch {
	case b.owner != nil:
		return b.owner.free()
	case b.region == nil:
		pinned.remove(b)
		b.pin.Unpin()
		return nil
	case regions.drop(b):
		return b.region.Free()
	}
	return nil
}
