// SPDX-License-Identifier: Apache-2.0

// Package ring implements queues of fixed slots in memory that a program shares with the kernel.
// One side produces and the other consumes. Each publishes its position.
//
// Data from the other side is not trusted. The bounds are read once, checked against the size of
// the mapping and kept here. An index is masked each time it is loaded, so that no value of it
// leads outside the memory.
package ring

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// ErrLayout reports that a queue does not fit its memory.
var ErrLayout = errors.New("queue layout does not fit its memory")

// Layout describes the place of a queue in its memory. Offsets are in bytes.
type Layout struct {
	Producer int    // 32-bit index of the slot that is filled next.
	Consumer int    // 32-bit index of the slot that is emptied next.
	Data     int    // the first slot
	LogSlot  uint32 // a slot has 1<<LogSlot bytes
	Mask     uint32 // number of slots - 1, a power of two - 1
	MinSlot  int    // bytes of a slot that the user of the ring accesses
}

// Ring is one queue. Both indices are kept masked in memory, so that equal indices mean "empty" and
// one slot always stays free. A ring holds Cap() items.
//
// A Ring has no lock. Its user, on one side only, serializes its calls. The memory must stay mapped
// as long as the Ring is used.
type Ring struct {
	producer *atomic.Uint32
	consumer *atomic.Uint32
	data     unsafe.Pointer
	mask     uint32
	logSlot  uint32
}

// New checks that the queue is within mem, which must be outside the Go heap, and returns it.
func New(mem []byte, l Layout) (Ring, error) {
	slots := uint64(l.Mask) + 1
	switch {
	case bits.OnesCount64(slots) != 1 || l.Mask == 0:
		return Ring{}, fmt.Errorf("%w: index mask %#x", ErrLayout, l.Mask)
	case l.LogSlot < 3 || l.LogSlot > 20 || l.MinSlot > 1<<l.LogSlot:
		return Ring{}, fmt.Errorf("%w: slots of 2^%d bytes, need %d", ErrLayout, l.LogSlot, l.MinSlot)
	case !aligned(l.Producer, 4, len(mem)) || !aligned(l.Consumer, 4, len(mem)):
		return Ring{}, fmt.Errorf("%w: indices at %d and %d of %d bytes", ErrLayout, l.Producer, l.Consumer, len(mem))
	case l.Data < 0 || l.Data%8 != 0 || l.Data > len(mem) || slots<<l.LogSlot > uint64(len(mem)-l.Data):
		return Ring{}, fmt.Errorf("%w: %d slots of 2^%d bytes at %d of %d bytes", ErrLayout, slots, l.LogSlot, l.Data, len(mem))
	}
	base := unsafe.Pointer(unsafe.SliceData(mem))
	return Ring{
		producer: (*atomic.Uint32)(unsafe.Add(base, l.Producer)),
		consumer: (*atomic.Uint32)(unsafe.Add(base, l.Consumer)),
		data:     unsafe.Add(base, l.Data),
		mask:     l.Mask,
		logSlot:  l.LogSlot,
	}, nil
}

func aligned(off, size, length int) bool {
	return off >= 0 && off%size == 0 && off <= length-size
}

// Cap returns the capacity in items.
func (r *Ring) Cap() int { return int(r.mask) }

// Next returns the index after i.
func (r *Ring) Next(i uint32) uint32 { return (i + 1) & r.mask }

// Count returns the number of items for given indices.
func (r *Ring) Count(producer, consumer uint32) int { return int((producer - consumer) & r.mask) }

// LoadProducer returns the producer's index. It pairs with the producer's store-release, which
// makes the contents of the slots before the index visible.
func (r *Ring) LoadProducer() uint32 { return load(r.producer) & r.mask }

// StoreProducer publishes the producer's index. It pairs with the consumer's load-acquire. Earlier
// writes to the slots before the index are visible to the consumer.
func (r *Ring) StoreProducer(i uint32) { store(r.producer, i&r.mask) }

// LoadConsumer returns the consumer's index. It pairs with the consumer's store-release. The
// consumer no longer reads the slots before the index.
func (r *Ring) LoadConsumer() uint32 { return load(r.consumer) & r.mask }

// StoreConsumer publishes the consumer's index. It pairs with the producer's load-acquire. The
// slots before the index may be filled again.
func (r *Ring) StoreConsumer(i uint32) { store(r.consumer, i&r.mask) }

func (r *Ring) slot(i uint32) unsafe.Pointer {
	return unsafe.Add(r.data, uintptr(i&r.mask)<<r.logSlot)
}

// At returns slot i as a T, which must not be larger than Layout.MinSlot and must hold no Go
// pointers.
func At[T any](r *Ring, i uint32) *T { return (*T)(r.slot(i)) }

// Tail returns n elements of T that start off bytes into slot i. off is aligned for T. It panics if
// the slot is too small.
func Tail[T any](r *Ring, i uint32, off, n int) []T {
	var t T
	if off < 0 || n < 0 || uint64(n) > (uint64(1)<<r.logSlot-uint64(off))/uint64(unsafe.Sizeof(t)) || off > 1<<r.logSlot {
		panic("ring: elements beyond the slot")
	}
	return unsafe.Slice((*T)(unsafe.Add(r.slot(i), off)), n)
}
