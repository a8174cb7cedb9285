// SPDX-License-Identifier: Apache-2.0

package verbs

// RecvBatch collects receives in memory of its own, so that a number of receives that is known
// only at run time is posted with one call and without allocations:
//
//	var b verbs.RecvBatch
//	for i := range 64 {
//		b.Add(uint64(i), mr.Slice(i*size, size))
//	}
//	n, err := qp.PostRecv(b.WRs()) // or SRQ.PostRecv
//	b.Reset()
//
// It may be reused after Reset, and is for one goroutine.
type RecvBatch struct {
	wrs []RecvWR
	sg  []SGE
}

// Add adds a receive into the memory of sg. Its completion carries id.
func (b *RecvBatch) Add(id uint64, sg ...SGE) {
	at := len(b.sg)
	b.sg = append(b.sg, sg...)
	b.wrs = append(b.wrs, RecvWR{ID: id, SGList: b.sg[at:len(b.sg):len(b.sg)]})
}

// WRs returns the receives in the order of Add. The slice is valid until Reset. If a post
// takes only the first n because the queue is full, the others are b.WRs()[n:].
func (b *RecvBatch) WRs() []RecvWR { return b.wrs }

// Reset removes all receives and keeps the memory for new ones.
func (b *RecvBatch) Reset() { b.wrs, b.sg = b.wrs[:0], b.sg[:0] }
