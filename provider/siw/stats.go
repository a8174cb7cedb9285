// SPDX-License-Identifier: Apache-2.0

package siw

import "purerdma/provider"

var (
	_ provider.QPCounter = (*qp)(nil)
	_ provider.CQCounter = (*cq)(nil)
)

// count counts a request. The caller holds the lock.
func (sq *sendQueue) count(wr *provider.SendWR) {
	n := uint64(len(wr.InlineData))
	if wr.InlineData == nil {
		for i := range wr.SGList {
			n += uint64(wr.SGList[i].Length)
		}
	}
	sq.counts.Add(wr.Opcode, n)
}

// Stats implements provider.QPCounter.
func (q *qp) Stats() provider.QPStats {
	q.sq.mu.Lock()
	st := provider.QPStats{Sends: q.sq.counts.Counts(), Doorbells: q.sq.doorbells}
	q.sq.mu.Unlock()
	q.rq.mu.Lock()
	st.Receives = q.rq.posted
	q.rq.mu.Unlock()
	return st
}

// Counts implements provider.CQCounter.
func (c *cq) Counts() provider.CQCounts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts.Counts()
}
