// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"

	"purerdma/internal/cdev"
)

// borrowFrom is the length in bytes from which Borrow registers memory instead of copying it. See
// docs/adr/0044-borrowed-memory.md.
const borrowFrom = 256 << 10

// Copy returns a Buf with a copy of b. It waits as Get does. The caller may change b at once. A pool
// over a dma-buf returns an error that wraps errors.ErrUnsupported.
func (p *Pool) Copy(ctx context.Context, b []byte) (*Buf, error) {
	buf, err := p.getToCopy(ctx, len(b))
	if err != nil {
		return nil, err
	}
	copy(buf.Bytes(), b)
	return buf, nil
}

func (p *Pool) getToCopy(ctx context.Context, n int) (*Buf, error) {
	if p.slabSize == 0 {
		return nil, p.opError(errors.ErrUnsupported)
	}
	return p.Get(ctx, n)
}

// Borrow returns a Buf with the bytes of b for requests that read it, such as sends and writes. If b
// has less than 256 KiB, or is not in the Go heap, the Buf has a copy, as from Copy. Otherwise Borrow
// pins and registers b itself, for reading by the local device only. The caller must not change b
// before the last Free.
//
// The registration counts against MaxBytes, and stays after Free for later calls with this memory.
// It ends when another request needs its bytes, or with Close. Until then the garbage
// collector does not free the memory. So Borrow is for large buffers that the program sends again
// and again. If there is no room for the registration, Borrow copies.
func (p *Pool) Borrow(ctx context.Context, b []byte) (*Buf, error) {
	cdev.NeedContext(ctx)
	if len(b) >= borrowFrom && p.slabSize > 0 && onHeap(b) {
		if buf := p.borrow(b); buf != nil {
			if p.debug {
				p.handOut(buf)
			}
			return buf, nil
		}
	}
	return p.Copy(ctx, b)
}

// borrow returns a Buf of registered memory of the program, or nil.
func (p *Pool) borrow(b []byte) *Buf {
	addr := uint64(reflect.ValueOf(b).Pointer())
	p.mu.Lock()
	if p.closed || p.waiters.n > 0 { // a Get may wait for the registered memory to be unused
		p.mu.Unlock()
		return nil
	}
	for i, s := range p.slabs {
		// A registered object is pinned, so no other object can have its addresses.
		if off := addr - s.mr.Addr(); s.borrowed && off < uint64(s.size) && uint64(len(b)) <= uint64(s.size)-off {
			p.slabs = append(slices.Delete(p.slabs, i, i+1), s) // the oldest ones are evicted first
			buf := p.newBorrowedBuf(s, int(off), len(b))
			p.mu.Unlock()
			return buf
		}
	}
	p.flush() // so that unused slabs can be evicted
	g, ok := p.reserveBytes(growth{size: len(b), mem: b})
	p.mu.Unlock()
	if !ok {
		return nil
	}
	buf, err := p.grow(len(b), g)
	if err != nil {
		return nil // Copy reports it if it fails for the same reason
	}
	return buf
}

// newBorrowedBuf returns a Buf for n bytes from off on of borrowed memory. The caller holds p.mu.
func (p *Pool) newBorrowedBuf(s *slab, off, n int) *Buf {
	if s.idle() {
		p.inUse += s.size
	}
	s.use()
	return p.newBuf(s, off, borrowedPiece, n)
}

// onHeap reports whether b is in an object of the Go heap, which a runtime.Pinner can keep there. A
// registration of other memory would refer to the wrong pages after the program has unmapped that memory.
//
// Package runtime has no function for this. A Pinner lists the objects that it has pinned, and lists no
// other memory. If a version of Go changes this list, onHeap returns false.
func onHeap(b []byte) bool {
	var p runtime.Pinner
	p.Pin(&b[0])
	defer p.Unpin()
	state := reflect.ValueOf(&p).Elem().FieldByName("pinner")
	if !state.IsValid() || state.Kind() != reflect.Pointer || state.IsNil() || state.Elem().Kind() != reflect.Struct {
		return false
	}
	refs := state.Elem().FieldByName("refs")
	return refs.IsValid() && refs.Kind() == reflect.Slice && refs.Len() == 1
}
