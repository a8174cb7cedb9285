// SPDX-License-Identifier: Apache-2.0

// Package dbrec allocates doorbell records. These are words in memory of the process that a device
// reads to find new work in a queue.
package dbrec

import (
	"errors"
	"sync"
	"unsafe"

	"purerdma/internal/mem"
)

// Pool allocates the records of one context. The zero Pool is ready for use. Its methods may be
// called concurrently.
type Pool struct {
	mu    sync.Mutex
	pages []*page
}

// page is a page of records.
type page struct {
	region *mem.Region
	used   []bool // by slot
	count  int
}

// Record is the memory of one record.
type Record struct {
	mem  unsafe.Pointer // nil after Free
	page *page
	slot int
}

// Mem returns the memory, which is aligned to its size.
func (r *Record) Mem() unsafe.Pointer { return r.mem }

// Alloc allocates a record of size bytes, which are zeros. The size and the size of a page are
// powers of two, and equal in all calls for a Pool. A size of a cache line or more keeps the device's
// reads for one queue from slowing down another queue.
func (p *Pool) Alloc(pageSize, size int) (*Record, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.pages {
		if g.count < len(g.used) {
			return g.take(size), nil
		}
	}
	r, err := mem.Alloc(pageSize)
	if err != nil {
		return nil, err
	}
	g := &page{region: r, used: make([]bool, pageSize/size)}
	p.pages = append(p.pages, g)
	return g.take(size), nil
}

// take returns the first free record of a page that has one.
func (g *page) take(size int) *Record {
	for i, used := range g.used {
		if used {
			continue
		}
		g.used[i] = true
		g.count++
		b := g.region.Bytes()[i*size : (i+1)*size]
		clear(b)
		return &Record{mem: unsafe.Pointer(&b[0]), page: g, slot: i}
	}
	return nil
}

// Free frees a record. The device does not use it any more. A second Free fails.
func (p *Pool) Free(r *Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.mem == nil {
		return errors.New("doorbell record freed twice")
	}
	g := r.page
	r.mem = nil
	g.used[r.slot] = false
	g.count--
	if g.count > 0 {
		return nil
	}
	for i := range p.pages {
		if p.pages[i] == g {
			p.pages = append(p.pages[:i], p.pages[i+1:]...)
			break
		}
	}
	return g.region.Free()
}
