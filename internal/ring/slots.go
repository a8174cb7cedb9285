// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// Slots is an array of slots in memory that a program shares with the kernel. It has no index. Each
// slot has a word that holds its owner, and each side counts for itself. Both go round the array in
// the same order. All slots can be used.
//
// Slots has no lock. Its user, on one side only, serializes its calls. The memory must stay mapped
// as long as the Slots are used. A counter is taken modulo the number of slots, so no value of it
// leads outside the memory.
type Slots struct {
	data unsafe.Pointer
	size uintptr // of a slot
	word uintptr // where the word is in a slot
	mask uint32
}

// NewSlots checks that n slots of size bytes, each with its word at an offset, are within mem,
// which must be outside the Go heap, and returns them. n is a power of two.
func NewSlots(mem []byte, n uint32, size, word int) (Slots, error) {
	switch {
	case bits.OnesCount32(n) != 1:
		return Slots{}, fmt.Errorf("%w: %d slots", ErrLayout, n)
	case size <= 0 || size%8 != 0 || !aligned(word, 4, size):
		return Slots{}, fmt.Errorf("%w: slots of %d bytes, a word at %d", ErrLayout, size, word)
	case uint64(n) > uint64(len(mem))/uint64(size):
		return Slots{}, fmt.Errorf("%w: %d slots of %d bytes in %d", ErrLayout, n, size, len(mem))
	}
	return Slots{data: unsafe.Pointer(unsafe.SliceData(mem)), size: uintptr(size), word: uintptr(word), mask: n - 1}, nil
}

// Len returns the number of slots.
func (s *Slots) Len() int { return int(s.mask) + 1 }

func (s *Slots) slot(i uint32) unsafe.Pointer {
	return unsafe.Add(s.data, uintptr(i&s.mask)*s.size)
}

func (s *Slots) state(i uint32) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Add(s.slot(i), s.word))
}

// LoadWord returns the word of slot i. It pairs with the store of the word by the other side, whose
// earlier writes to the slot are visible.
func (s *Slots) LoadWord(i uint32) uint32 { return load(s.state(i)) }

// StoreWord sets the word of slot i. It pairs with the load of the word by the other side. Earlier
// writes to the slot are visible to it. It is a full barrier to the loads of words that follow.
func (s *Slots) StoreWord(i, v uint32) { store(s.state(i), v) }

// InSlot returns slot i as a T, which must not be larger than a slot and must
// hold no Go pointers.
func InSlot[T any](s *Slots, i uint32) *T { return (*T)(s.slot(i)) }

// Word returns the 32-bit word at an offset of mem, which must be outside the Go
// heap and stay mapped.
func Word(mem []byte, off int) (*atomic.Uint32, error) {
	if !aligned(off, 4, len(mem)) {
		return nil, fmt.Errorf("%w: a word at %d of %d bytes", ErrLayout, off, len(mem))
	}
	return (*atomic.Uint32)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(mem)), off)), nil
}
