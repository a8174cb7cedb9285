// SPDX-License-Identifier: Apache-2.0

package inflight

import (
	"sync"
	"sync/atomic"
)

// Parts of a request ID: bit 63, bit 62 for receives, the index of the queue in its table, the
// generation of that index, and the number of the request.
const (
	ownIDs     = 1 << 63
	recvIDs    = 1 << 62
	indexShift = 43
	indexMask  = 1<<19 - 1
	genShift   = 32
	genMask    = 1<<11 - 1
)

// idTable assigns the upper parts of request IDs to queues, and finds a queue by the ID of a
// request. A lookup takes no lock.
type idTable[T any] struct {
	// entries is indexed by the index in an ID. It is replaced when it grows.
	entries atomic.Pointer[[]atomic.Pointer[T]]

	mu     sync.Mutex // guards the following fields
	unused []uint32   // free indexes
	gens   []uint16   // uses of each index
}

// add assigns IDs to a queue. It reports false if there are too many queues. set
// is called with the ID of request 0 before a lookup can find the queue.
func (t *idTable[T]) add(q *T, set func(base uint64)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	var index uint32
	if n := len(t.unused); n > 0 {
		index, t.unused = t.unused[n-1], t.unused[:n-1]
	} else {
		index = uint32(len(t.gens))
		if index > indexMask {
			return false
		}
		t.gens = append(t.gens, 0)
	}
	old := t.all()
	if int(index) >= len(old) {
		grown := make([]atomic.Pointer[T], max(4, 2*len(old)))
		for i := range old {
			grown[i].Store(old[i].Load())
		}
		t.entries.Store(&grown)
	}
	t.gens[index]++
	set(ownIDs | uint64(index)<<indexShift | uint64(t.gens[index]&genMask)<<genShift)
	t.all()[index].Store(q)
	return true
}

// remove releases the IDs of a queue. A lookup may still find the queue until its index is used
// again.
func (t *idTable[T]) remove(base uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unused = append(t.unused, uint32(base>>indexShift&indexMask))
}

// lookup returns the queue that has, or last had, the index in an ID, nil if there was
// none.
func (t *idTable[T]) lookup(id uint64) *T {
	all := t.all()
	index := id >> indexShift & indexMask
	if index >= uint64(len(all)) {
		return nil
	}
	return all[index].Load()
}

// all returns the entries. Unused ones are nil or queues that were removed.
func (t *idTable[T]) all() []atomic.Pointer[T] {
	if p := t.entries.Load(); p != nil {
		return *p
	}
	return nil
}
