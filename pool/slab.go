// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math/bits"

	"purerdma/verbs"
)

// slab is one memory region. A buddy allocator divides it into blocks. Its state is outside of the
// registered memory, which peers may be able to write. Pool.mu guards the fields that change.
type slab struct {
	mr    *verbs.MR
	mem   []byte // nil if the memory is another device's
	size  int    // bytes
	units int
	free  int // units that no block has

	// borrowed reports that the memory is the program's, which Borrow has registered. users counts
	// its Bufs.
	borrowed bool
	users    int

	// orders[k] lists the free blocks of 1<<k units. It is nil if the slab has one block only, which
	// is the whole slab.
	orders []freeBlocks
	avail  uint64 // bit k: orders[k] is not empty

	// freed has the stack of the last Free of each unit, or of the whole slab. Debug mode only. An
	// element belongs to the owner of the unit's block.
	freed []*stack
}

// freeBlocks is the set of free blocks of one order.
type freeBlocks struct {
	bits  []uint64 // bit i of the set: the block at i<<order is free
	count int
	low   int // no word before this one has a bit
}

// newSlab describes the memory of mr. If divided is false, only the whole slab can be taken.
func newSlab(mr *verbs.MR, divided, debug bool) *slab {
	s := &slab{mr: mr, mem: mr.Bytes(), size: mr.Len(), units: 1}
	if divided {
		s.units = s.size / unit
		s.orders = make([]freeBlocks, bits.Len(uint(s.units)))
		for k := range s.orders {
			s.orders[k].bits = make([]uint64, (s.units>>k+63)/64)
		}
		s.put(0, s.units)
	} else {
		s.free = 1
	}
	if debug && s.mem != nil {
		s.freed = make([]*stack, s.units)
		poison(s.mem)
	}
	return s
}

// newBorrowed describes registered memory of the program. free is 1 if it has no users.
func newBorrowed(mr *verbs.MR) *slab {
	return &slab{mr: mr, mem: mr.Bytes(), size: mr.Len(), units: 1, free: 1, borrowed: true}
}

// use counts one more Buf of borrowed memory.
func (s *slab) use() {
	s.users++
	s.free = 0
}

// endUse counts one Buf of borrowed memory less.
func (s *slab) endUse() {
	if s.users--; s.users == 0 {
		s.free = 1
	}
}

// idle reports whether no block is taken.
func (s *slab) idle() bool { return s.free == s.units }

// take takes n units and returns the first. It reports false if no free block is large enough.
func (s *slab) take(n int) (at int, ok bool) {
	least := bits.Len(uint(n - 1))
	fit := s.avail >> least
	if fit == 0 {
		return 0, false
	}
	k := least + bits.TrailingZeros64(fit)
	at = s.first(k)
	s.clear(k, at)
	s.free -= 1 << k
	s.put(at+n, 1<<k-n)
	return at, true
}

// takeWhole takes the whole slab, which must be idle.
func (s *slab) takeWhole() {
	for k := range s.orders {
		o := &s.orders[k]
		clear(o.bits)
		o.count, o.low = 0, 0
	}
	s.avail, s.free = 0, 0
}

// put frees n units from at on. It merges them with the free blocks around them.
func (s *slab) put(at, n int) {
	s.free += n
	if s.orders == nil {
		return
	}
	for n > 0 {
		k := bits.Len(uint(n)) - 1
		if at != 0 {
			k = min(k, bits.TrailingZeros(uint(at)))
		}
		s.merge(k, at)
		at, n = at+1<<k, n-1<<k
	}
}

// merge frees a block. Two free buddies become one block of the next order.
func (s *slab) merge(k, at int) {
	for ; k+1 < len(s.orders) && s.has(k, at^1<<k); k++ {
		s.clear(k, at^1<<k)
		at &^= 1 << k
	}
	s.set(k, at)
}

func (s *slab) has(k, at int) bool {
	i := at >> k
	b := s.orders[k].bits
	return i>>6 < len(b) && b[i>>6]&(1<<(i&63)) != 0
}

func (s *slab) set(k, at int) {
	o, i := &s.orders[k], at>>k
	o.bits[i>>6] |= 1 << (i & 63)
	o.count++
	o.low = min(o.low, i>>6)
	s.avail |= 1 << k
}

func (s *slab) clear(k, at int) {
	o, i := &s.orders[k], at>>k
	o.bits[i>>6] &^= 1 << (i & 63)
	if o.count--; o.count == 0 {
		s.avail &^= 1 << k
	}
}

// first returns the first unit of the first free block of an order, which must not be empty.
func (s *slab) first(k int) int {
	o := &s.orders[k]
	for o.bits[o.low] == 0 {
		o.low++
	}
	return (o.low<<6 + bits.TrailingZeros64(o.bits[o.low])) << k
}
