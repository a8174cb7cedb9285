// SPDX-License-Identifier: Apache-2.0

package uverbstest

import (
	"math/bits"

	"purerdma/abi"
	"purerdma/internal/mem"
	"purerdma/internal/ring"
)

// queue is the kernel's side of a ring of rxe. The kernel keeps its own index in own, and reads
// only the program's index from the shared memory.
type queue struct {
	mem  *mem.Region
	ring ring.Ring
	own  uint32
}

func newQueue(items, elem int) (*queue, error) {
	slots := 1 << bits.Len(uint(max(items, 1)))
	logSlot := bits.Len(uint(max(elem, 64) - 1))
	data := abi.Size[abi.RxeQueueBuf]()
	m, err := mem.Alloc(data + slots<<logSlot)
	if err != nil {
		return nil, err
	}
	hdr := abi.View[abi.RxeQueueBuf](m.Bytes())
	hdr.Log2ElemSize, hdr.IndexMask = uint32(logSlot), uint32(slots-1)
	r, err := ring.New(m.Bytes(), ring.Layout{
		Producer: 128, Consumer: 256, Data: data, LogSlot: hdr.Log2ElemSize, Mask: hdr.IndexMask, MinSlot: elem,
	})
	if err != nil {
		m.Free()
		return nil, err
	}
	return &queue{mem: m, ring: r}, nil
}

// empty reports whether a queue from which the kernel takes requests is empty.
func (q *queue) empty() bool { return q.ring.LoadProducer() == q.own }

// full reports whether the program's side of a queue has no free slot.
func (q *queue) full() bool { return q.ring.Next(q.ring.LoadProducer()) == q.own }

// filled returns the number of items in a queue to which the kernel adds completions.
func (q *queue) filled() int { return q.ring.Count(q.own, q.ring.LoadConsumer()) }

// pop frees the slot at own.
func (q *queue) pop() {
	q.own = q.ring.Next(q.own)
	q.ring.StoreConsumer(q.own)
}
