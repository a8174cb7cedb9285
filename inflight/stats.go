// SPDX-License-Identifier: Apache-2.0

package inflight

import "purerdma/internal/bridge"

// Stats counts the operations of a Queue.
type Stats struct {
	Started uint64 // by Start, Go, Submit and Post
	Failed  uint64 // completed with an error, or never posted
	Pending int    // not completed
	// RoomWaits counts the calls that waited for room in the send queue. ReadStalls counts how often
	// requests waited because Config.MaxReads READs and atomics were in flight.
	RoomWaits, ReadStalls uint64
}

// Stats returns the counts of the Queue.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Pending = q.used
	return s
}

// count adds the counts of the Queue to the sums of the Host.
func (q *Queue) count(c *bridge.Counts) {
	s := q.Stats()
	c.Count("Started", s.Started)
	c.Count("Failed", s.Failed)
	c.Count("RoomWaits", s.RoomWaits)
	c.Count("ReadStalls", s.ReadStalls)
	c.Level("Pending", uint64(s.Pending))
}
