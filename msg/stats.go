// SPDX-License-Identifier: Apache-2.0

package msg

import "purerdma/cm"

// Stats counts the waits of a connection.
type Stats struct {
	// CreditStalls counts the calls that waited because the peer had no room for a message or a
	// request. MemoryStalls counts the calls that waited for memory of the pool.
	CreditStalls, MemoryStalls uint64
	// Conn has the counts of the connection that carries the messages.
	Conn cm.ConnStats
}

// Stats returns the counts of the connection.
func (c *Conn) Stats() Stats {
	c.mu.Lock()
	s := c.stats
	c.mu.Unlock()
	s.MemoryStalls = c.memoryStalls.Load()
	s.Conn = c.conn.Stats()
	return s
}
