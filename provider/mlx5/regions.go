// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"purerdma/provider"
)

// region is the memory of a memory region. It does not change.
type region struct {
	key    uint64 // the lkey, or noKey
	iova   uint64
	mem    []byte
	access provider.Access
}

// write copies data to an address of the region. It returns false if the region may not
// be written, or the data is not all within it.
func (m *region) write(addr uint64, data []byte) bool {
	off := addr - m.iova
	if m.access&provider.LocalWrite == 0 || off > uint64(len(m.mem)) || uint64(len(m.mem))-off < uint64(len(data)) {
		return false
	}
	copy(m.mem[off:], data)
	return true
}

// regions finds the memory regions of a PD by their lkeys. It is a hash table with linear probing.
// Look-ups take no lock and may run during changes. A look-up that started before remove may still
// return the region, so pd.removeRegion waits for the polls that use it.
type regions struct {
	table atomic.Pointer[regionTable]

	mu   sync.Mutex // of changes
	used int        // slots of the table that are not nil
	live int        // regions
}

// regionTable has a power of two of slots, half of which at least are nil.
type regionTable struct {
	shift uint8 // 32 - the logarithm of the number of slots
	slots []atomic.Pointer[region]
}

// noKey is no lkey: these have 32 bits.
const noKey = 1 << 32

// removed takes the slot of a removed region, because a look-up ends at nil.
var removed = &region{key: noKey}

// minRegionSlots is the size of the smallest table.
const minRegionSlots = 8

// newRegionTable makes a table that is a quarter full with n regions.
func newRegionTable(n int) *regionTable {
	log := bits.Len(uint(max(4*n, minRegionSlots) - 1))
	return &regionTable{uint8(32 - log), make([]atomic.Pointer[region], 1<<log)}
}

// first returns the slot to begin with in the search for a key. Keys often differ by
// multiples of 256. Multiplication by 2^32 over the golden ratio spreads such numbers.
func (t *regionTable) first(lkey uint32) uint32 { return lkey * 0x9e3779b1 >> (t.shift & 31) }

// at returns slot i, modulo the number of slots.
func (t *regionTable) at(i uint32) *atomic.Pointer[region] { return &t.slots[int(i)&(len(t.slots)-1)] }

// find returns the region with a key, or nil.
func (r *regions) find(lkey uint32) *region {
	t := r.table.Load()
	if t == nil {
		return nil
	}
	for i := t.first(lkey); ; i++ {
		if m := t.at(i).Load(); m == nil || m.key == uint64(lkey) {
			return m
		}
	}
}

// add adds a region. It replaces a region with the same key. The kernel has deregistered that one,
// because it has assigned the key again, but the region's Close has not removed it yet.
func (r *regions) add(m *region) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.table.Load()
	if t == nil || 2*(r.used+1) > len(t.slots) {
		t = r.rebuilt(t)
		r.table.Store(t)
	}
	switch t.put(m) {
	case nil:
		r.used++
		r.live++
	case removed:
		r.live++
	}
}

// rebuilt returns a table with the regions of t, and room for more of them. The caller
// holds mu.
func (r *regions) rebuilt(t *regionTable) *regionTable {
	to := newRegionTable(r.live + 1)
	r.used = r.live
	if t != nil {
		for i := range t.slots {
			if m := t.slots[i].Load(); m != nil && m != removed {
				to.put(m)
			}
		}
	}
	return to
}

// put puts a region into the slot of the region with the same key, or else into the first slot
// without a region. It returns the previous value of the slot.
func (t *regionTable) put(m *region) *region {
	var to *atomic.Pointer[region]
	for i := t.first(uint32(m.key)); ; i++ {
		s := t.at(i)
		old := s.Load()
		if old != nil && old.key == m.key {
			return s.Swap(m)
		}
		if to == nil && (old == nil || old == removed) {
			to = s
		}
		if old == nil {
			return to.Swap(m)
		}
	}
}

// remove removes a region, if it is there.
func (r *regions) remove(m *region) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.table.Load()
	for i := t.first(uint32(m.key)); ; i++ {
		switch s := t.at(i); s.Load() {
		case m:
			s.Store(removed)
			r.live--
			return
		case nil:
			return
		}
	}
}
