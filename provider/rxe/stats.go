// SPDX-License-Identifier: Apache-2.0

package rxe

import "purerdma/provider"

var (
	_ provider.QPCounter = (*qp)(nil)
	_ provider.CQCounter = (*cq)(nil)
)

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
