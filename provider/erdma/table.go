// SPDX-License-Identifier: Apache-2.0

package erdma

import "sync/atomic"

// A completion names its QP by the number, of which the doorbells have 20 bits.
const (
	numBits  = 20
	numQPs   = 1 << numBits
	pageBits = 10
	pageMask = 1<<pageBits - 1
)

// table finds QPs by their numbers. Look-ups may run during changes.
type table struct {
	pages [numQPs >> pageBits]atomic.Pointer[tablePage]
}

type tablePage [1 << pageBits]atomic.Pointer[qp]

// find returns the QP with a number, of which all 32 bits may be set, or nil.
func (t *table) find(num uint32) *qp {
	if num >= numQPs {
		return nil
	}
	p := t.pages[num>>pageBits].Load()
	if p == nil {
		return nil
	}
	return p[num&pageMask].Load()
}

// add adds a QP, and reports whether its number was free and below numQPs. The kernel may reuse the number of a
// QP before Close has removed that QP. add waits for Close then. The pages stay.
func (t *table) add(q *qp) bool {
	if q.num >= numQPs {
		return false
	}
	at := &t.pages[q.num>>pageBits]
	if at.Load() == nil {
		at.CompareAndSwap(nil, new(tablePage))
	}
	slot := &at.Load()[q.num&pageMask]
	for !slot.CompareAndSwap(nil, q) {
		if old := slot.Load(); old != nil && !old.awaitClose() {
			return false
		}
	}
	return true
}

// remove removes a QP.
func (t *table) remove(q *qp) {
	if p := t.pages[q.num>>pageBits].Load(); p != nil {
		p[q.num&pageMask].CompareAndSwap(q, nil)
	}
}
