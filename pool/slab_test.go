// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math/bits"
	"math/rand/v2"
	"testing"
)

// TestClasses checks that the classes are in ascending order, and that each number of units has the
// smallest class that is large enough.
func TestClasses(t *testing.T) {
	class := 0
	for units := 1; units < 1<<17; units++ {
		if units > classUnits(class) {
			class++
		}
		if got := classOf(units); got != class {
			t.Fatalf("classOf(%d) = %d, want %d", units, got, class)
		}
		if size := classUnits(class); size < units || units > 4 && size*4 >= units*5 {
			t.Fatalf("%d units have a class of %d", units, size)
		}
	}
}

// dividedSlab returns a slab without memory.
func dividedSlab(units int) *slab {
	s := &slab{units: units, orders: make([]freeBlocks, bits.Len(uint(units)))}
	for k := range s.orders {
		s.orders[k].bits = make([]uint64, (units>>k+63)/64)
	}
	s.put(0, units)
	return s
}

// TestSlab takes and frees random blocks. Blocks never overlap, and the free units are merged in the
// end.
func TestSlab(t *testing.T) {
	for _, units := range []int{1, 2, 3, 64, 100, 1000, 1024, 4095, 4096} {
		s := dividedSlab(units)
		r := rand.New(rand.NewPCG(1, uint64(units)))
		owner := make([]bool, units)
		type block struct{ at, n int }
		var taken []block
		free := units
		for range 20000 {
			if r.IntN(2) == 0 {
				n := classUnits(r.IntN(classOf(units) + 1))
				at, ok := s.take(n)
				if !ok {
					continue
				}
				for i := at; i < at+n; i++ {
					if i >= units || owner[i] {
						t.Fatalf("of %d units, take(%d) = %d, which overlaps another block or the end", units, n, at)
					}
					owner[i] = true
				}
				taken = append(taken, block{at, n})
				free -= n
			} else if len(taken) > 0 {
				i := r.IntN(len(taken))
				b := taken[i]
				taken[i] = taken[len(taken)-1]
				taken = taken[:len(taken)-1]
				for i := b.at; i < b.at+b.n; i++ {
					owner[i] = false
				}
				s.put(b.at, b.n)
				free += b.n
			}
			if s.free != free {
				t.Fatalf("of %d units %d are free, want %d", units, s.free, free)
			}
		}
		for _, b := range taken {
			s.put(b.at, b.n)
		}
		if !s.idle() {
			t.Errorf("of %d units %d are free, want all", units, s.free)
		}
		if want := 1 << (bits.Len(uint(units)) - 1); want > 0 {
			if at, ok := s.take(want); at != 0 || !ok {
				t.Errorf("of %d free units, take(%d) = %d, %v, want 0, true", units, want, at, ok)
			}
		}
	}
}

// TestFreeBlocks takes all blocks of one size: none is lost.
func TestFreeBlocks(t *testing.T) {
	const units = 1 << 12
	for class := range classOf(units) + 1 {
		s, n := dividedSlab(units), classUnits(class)
		count := 0
		for {
			if _, ok := s.take(n); !ok {
				break
			}
			count++
		}
		pow2 := 1 << bits.Len(uint(n-1))
		if count < units/pow2 {
			t.Errorf("%d blocks of %d units in %d, want at least %d", count, n, units, units/pow2)
		}
	}
}
