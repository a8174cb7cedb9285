// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"purerdma/cm"
	"purerdma/internal/bridge"
	"purerdma/verbs"
)

// Stats counts the waits of a connection.
type Stats struct {
	// CreditStalls counts the calls that waited because the peer had no room for a message or a
	// request. MemoryStalls counts the calls that waited for memory of the pool.
	CreditStalls, MemoryStalls uint64
	// Conn has the counts of the connection that carries the messages.
	Conn cm.ConnStats
}

var counting = bridge.CountingFunctions.(*bridge.Counting[*verbs.Host, *verbs.QP, *verbs.PD])

// waits returns the counts without Conn.
func (c *Conn) waits() Stats {
	c.mu.Lock()
	s := c.stats
	c.mu.Unlock()
	s.MemoryStalls = c.memoryStalls.Load()
	return s
}

// count adds the counts of the connection to the sums of the Host.
func (c *Conn) count(sum *bridge.Counts) {
	s := c.waits()
	sum.Count("CreditStalls", s.CreditStalls)
	sum.Count("MemoryStalls", s.MemoryStalls)
}

// Stats returns the counts of the connection.
func (c *Conn) Stats() Stats {
	s := c.waits()
	s.Conn = c.conn.Stats()
	return s
}
