// SPDX-License-Identifier: Apache-2.0

package erdma

import "purerdma/provider"

var (
	_ provider.QPCounter = (*qp)(nil)
	_ provider.CQCounter = (*cq)(nil)
)

// tally counts a request of n bytes.
func (s *sendQueue) tally(op provider.SendOpcode, n uint64) { s.counts[op&15].Add(n) }

// subtract takes the request that begins with a block out of the counts. It was built and not posted,
// so the ring still has it.
func (s *sendQueue) subtract(i uint32) {
	b := s.block(i)
	code := uint8(little32(b, 0) >> headOp)
	length := uint64(little32(b, sqeLength))
	for op := range operations {
		if o := &operations[op]; o.kind != opNone && o.code == code {
			if o.kind == opAtomics {
				length = atomicSize
			}
			c := &s.counts[op]
			c.Operations--
			c.Bytes -= length
			return
		}
	}
}

// Stats implements provider.QPCounter.
func (q *qp) Stats() provider.QPStats {
	var st provider.QPStats
	s, r := &q.sq, &q.rq
	s.lock.Lock()
	copy(st.Sends[:], s.counts[:])
	st.Doorbells = s.doorbells
	s.lock.Unlock()
	r.lock.Lock()
	st.Receives = r.posted
	r.lock.Unlock()
	return st
}

// Counts implements provider.CQCounter.
func (c *cq) Counts() provider.CQCounts {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.counts
}
