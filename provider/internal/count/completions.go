// SPDX-License-Identifier: Apache-2.0

package count

import "purerdma/provider"

// Completions counts the completions of a CQ. The first failed completion allocates the counts by
// status.
type Completions struct {
	received  provider.Count
	successes uint64
	failures  *provider.StatusCounts // nil without any
}

// Add counts a completion. A status that has no name counts as provider.WCGeneralErr.
func (c *Completions) Add(w *provider.WC) {
	if w.Status != provider.WCSuccess {
		c.addFailure(w.Status)
		return
	}
	c.successes++
	if w.Opcode&provider.WCRecv != 0 {
		c.received.Add(uint64(w.ByteLen))
	}
}

//go:noinline
func (c *Completions) addFailure(s provider.WCStatus) {
	if c.failures == nil {
		c.failures = new(provider.StatusCounts)
	}
	c.failures[min(s, provider.WCGeneralErr)]++
}

// Counts returns the counts.
func (c *Completions) Counts() provider.CQCounts {
	st := provider.CQCounts{Received: c.received}
	if c.failures != nil {
		st.Completions = *c.failures
	}
	st.Completions[provider.WCSuccess] = c.successes
	return st
}
