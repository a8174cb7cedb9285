// SPDX-License-Identifier: Apache-2.0

// Package mem maps memory outside the Go heap. It is for buffers that a device accesses at any
// time, and for rings shared with the kernel. The garbage collector neither moves nor frees any of
// it.
package mem

import (
	"sync"

	"purerdma/internal/leak"
)

// Region is anonymous, zeroed memory that starts on a page of its own and whose
// last page holds nothing else. It lives until Free.
type Region struct {
	mu   sync.Mutex
	b    []byte // whole pages
	size int
	leak *leak.Entry
}

// Alloc maps at least size bytes, which must be more than 0.
func Alloc(size int) (*Region, error) { return newRegion(mapAnonymous, size) }

// AllocHuge is Alloc with pages of the kernel's default huge size. It returns ENOMEM if there are
// not enough of them.
func AllocHuge(size int) (*Region, error) { return newRegion(mapHuge, size) }

func newRegion(mmap func(int) ([]byte, error), size int) (*Region, error) {
	b, err := mmap(size)
	if err != nil {
		return nil, err
	}
	return &Region{b: b, size: size, leak: leak.Track("memory", "region")}, nil
}

// Bytes returns the memory in its requested size. It must not be touched after Free.
func (r *Region) Bytes() []byte { return r.b[:r.size:r.size] }

// Prefer has the kernel take the pages of the region from a NUMA node, as long as the node has free
// memory (mbind(2), MPOL_PREFERRED). It has no effect on pages that were touched before.
func (r *Region) Prefer(node int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return preferNode(r.b, node)
}

// HugePage returns the kernel's default size of huge pages in bytes, 0 if it has none.
func HugePage() int { return hugePage() }

// Free unmaps the region. It may be called more than once.
func (r *Region) Free() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.b == nil {
		return nil
	}
	if err := Unmap(r.b); err != nil {
		return err
	}
	r.b, r.size = nil, 0
	r.leak.Done()
	return nil
}
