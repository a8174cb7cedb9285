// SPDX-License-Identifier: Apache-2.0

package bnxtre

import "purerdma/provider"

var (
	_ provider.QPCounter = (*qp)(nil)
	_ provider.CQCounter = (*cq)(nil)
)

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
