// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"sync"
	"unsafe"

	"purerdma/abi"
	"purerdma/internal/mmio"
	"purerdma/provider/internal/endian"
	"purerdma/uverbs"
)

// A request with inline data can be pushed. The processor copies it to a buffer in a write-combining page of the
// adapter, between two doorbells of the buffer. The adapter then need not read it from memory. A page has 16 buffers.
// A QP owns one of them if one was free, like in libbnxt_re, which uses 15.

const (
	pushBuffers = 16
	pushSize    = 256 // bytes of a buffer
	// maxPush is the maximum of inline data in a pushed request, in bytes.
	maxPush = 96
)

// pushPages is the page for pushing requests.
type pushPages struct {
	mu       sync.Mutex
	page     *uverbs.Mapping // nil if requests are not pushed
	register unsafe.Pointer  // the page of registers
	number   uint32          // of the page
	used     [pushBuffers]bool
}

// pushBuffer is a buffer of a page, and its doorbell.
type pushBuffer struct {
	index    int
	mem      unsafe.Pointer
	register unsafe.Pointer
	start    uint64 // doorbell before the request, without its index
	end      uint64
	last     uint64
	unused   uint32
}

// open makes the page. Without it requests are not pushed, so an error is not reported. The caller has mapped the page
// of registers.
func (p *pushPages) open(c *Context, registers unsafe.Pointer) {
	m, number, err := allocPage(c.File, abi.BNXT_RE_ALLOC_WC_PAGE, c.pageSize, false)
	if err != nil {
		return
	}
	p.page, p.number, p.register = m, number, registers
	p.used[0] = true
}

func (p *pushPages) close() error { return closeMapping(&p.page) }

// take returns a free buffer for a QP, or nil.
func (p *pushPages) take(c *caps, qp uint32) *pushBuffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.page == nil || !c.p5 || p.number == 0 {
		return nil
	}
	for i, used := range p.used {
		if used {
			continue
		}
		p.used[i] = true
		page := uint64(p.number&0xf00)<<bellPageHi | uint64(p.number&0xff)<<bellPage
		return &pushBuffer{
			index:    i,
			mem:      unsafe.Add(base(p.page), i*pushSize),
			register: unsafe.Add(p.register, (i+1)*8),
			start:    bell(bellPushStart, qp) | page,
			end:      bell(bellPushEnd, qp) | page,
		}
	}
	return nil
}

// put takes a buffer back. b may be nil.
func (p *pushPages) put(b *pushBuffer) {
	if b == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used[b.index] = false
}

// push copies a request of n slots to the buffer, of which the first are at src and the others at rest. from and to
// are the indices of the request and of the next one.
func (b *pushBuffer) push(src unsafe.Pointer, first uint32, rest unsafe.Pointer, n, from, to uint32) {
	mmio.Doorbell(&b.last, endian.Little64(b.start|uint64(from)), b.register, &b.unused)
	mmio.Copy(b.mem, src, uintptr(min(first, n)))
	if first < n {
		mmio.Copy(unsafe.Add(b.mem, first<<slotShift), rest, uintptr(n-first))
	}
	mmio.Doorbell(&b.last, endian.Little64(b.end|uint64(to)), b.register, &b.unused)
}
