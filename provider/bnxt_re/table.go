// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"errors"
	"sync"
	"sync/atomic"
)

// A completion names its QP by the handle that the kernel got from the process. The lower half of a handle is a place in a
// table, and the upper half differs for each QP that had this place. No handle is 0.
const (
	maxQPs   = 1 << 20
	pageBits = 10
	pageMask = 1<<pageBits - 1
)

// table finds QPs by their handles. Look-ups may run during changes.
type table struct {
	pages [maxQPs >> pageBits]atomic.Pointer[tablePage]

	mu   sync.Mutex
	free []uint32 // places that were used
	next uint32   // the first place that was never used
	made uint32   // counts the QPs
}

type tablePage [1 << pageBits]atomic.Pointer[qp]

// find returns the QP with a handle, of which all bits may be set, or nil.
func (t *table) find(handle uint64) *qp {
	place := uint32(handle)
	if place >= maxQPs {
		return nil
	}
	p := t.pages[place>>pageBits].Load()
	if p == nil {
		return nil
	}
	if q := p[place&pageMask].Load(); q != nil && q.cookie == handle {
		return q
	}
	return nil
}

// reserve returns a handle for a new QP.
func (t *table) reserve() (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var place uint32
	switch n := len(t.free); {
	case n > 0:
		place, t.free = t.free[n-1], t.free[:n-1]
	case t.next == maxQPs:
		return 0, errors.New("bnxt_re: too many queue pairs")
	default:
		place = t.next
		t.next++
		if at := &t.pages[place>>pageBits]; at.Load() == nil {
			at.Store(new(tablePage))
		}
	}
	t.made++
	if t.made == 0 {
		t.made++
	}
	return uint64(t.made)<<32 | uint64(place), nil
}

// add makes a QP with a reserved handle visible.
func (t *table) add(q *qp) { t.at(q.cookie).Store(q) }

// remove hides a QP.
func (t *table) remove(q *qp) { t.at(q.cookie).Store(nil) }

// release frees the place of a handle.
func (t *table) release(handle uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free = append(t.free, uint32(handle))
}

func (t *table) at(handle uint64) *atomic.Pointer[qp] {
	place := uint32(handle)
	return &t.pages[place>>pageBits].Load()[place&pageMask]
}
