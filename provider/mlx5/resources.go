// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
)

// A completion names its queue by a user index of 24 bits, which the creator of the queue has
// chosen. QPs and SRQs share one space.
const (
	indexShift = 12 // of the two halves of an index
	indexHalf  = 1 << indexShift
	indexMask  = indexHalf - 1
)

// resources finds queues by their user index. Look-ups may run during changes.
type resources struct {
	pages [indexHalf]atomic.Pointer[resourcePage]

	mu   sync.Mutex
	room uint32 // indices of the pages that there are
	used uint32 // indices in use
	next uint32 // where the search for a free index begins
}

type resourcePage [indexHalf]resource

// resource is a QP, an SRQ or nothing.
type resource struct {
	qp  atomic.Pointer[QP]
	srq atomic.Pointer[SRQ]
}

// at returns the queue of an index, of which all 32 bits may be set.
func (r *resources) at(index uint32) *resource {
	page := r.pages[index>>indexShift&indexMask].Load()
	if page == nil || index >= 1<<(2*indexShift) {
		return nil
	}
	return &page[index&indexMask]
}

// qp returns the QP with an index, or nil.
func (r *resources) qp(index uint32) *QP {
	if e := r.at(index); e != nil {
		return e.qp.Load()
	}
	return nil
}

// srq returns the SRQ with an index, or nil.
func (r *resources) srq(index uint32) *SRQ {
	if e := r.at(index); e != nil {
		return e.srq.Load()
	}
	return nil
}

// add assigns a free index to a QP or an SRQ, of which one is nil. It is the next one after the
// newest, so that a late completion of a destroyed queue does not name a new one. At least half of
// the indices are free, as long as there can be more pages. With an error it returns noIndex.
func (r *resources) add(q *QP, s *SRQ) (uint32, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used*2 >= r.room && r.room < 1<<(2*indexShift) {
		r.pages[r.room>>indexShift].Store(new(resourcePage))
		r.room += indexHalf
	}
	if r.used == r.room {
		return noIndex, fmt.Errorf("mlx5: no free user index: %w", syscall.ENOMEM)
	}
	for {
		i := r.next
		r.next = (r.next + 1) % r.room
		if e := r.at(i); e.qp.Load() == nil && e.srq.Load() == nil {
			e.qp.Store(q)
			e.srq.Store(s)
			r.used++
			return i, nil
		}
	}
}

// publish makes data of a QP, such as its number, visible to pollers after the QP was added. The
// device orders the two, because it completes nothing before. Go's memory model does not include
// devices.
func (r *resources) publish(q *QP) {
	if e := r.at(q.index); q.indexed && e != nil {
		e.qp.Store(q)
	}
}

// remove frees an index that add returned. The pages stay.
func (r *resources) remove(index uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.at(index); e != nil {
		e.qp.Store(nil)
		e.srq.Store(nil)
		r.used--
	}
}
