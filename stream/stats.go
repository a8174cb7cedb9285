// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"purerdma/cm"
	"purerdma/internal/bridge"
	"purerdma/verbs"
)

// Stats counts the frames of a connection.
type Stats struct {
	// Sent and Received count the frames, and the bytes of data in them. A frame is a SEND. Frames
	// without data grant credits.
	Sent, Received verbs.Count
	// CreditStalls counts how often data waited because the peer had granted no credit.
	// MemoryStalls counts how often a Write or WriteBuf waited for memory that other connections or the
	// program use.
	CreditStalls, MemoryStalls uint64
	// Conn has the counts of the connection that carries the stream.
	Conn cm.ConnStats
}

// stats has the counts of Stats that a connection keeps. They are a type of their own, because Stats.Conn
// has 776 bytes.
type stats struct {
	sent, received             verbs.Count
	creditStalls, memoryStalls uint64
}

var counting = bridge.CountingFunctions.(*bridge.Counting[*verbs.Host, *verbs.QP, *verbs.PD])

func (l *link) counts() stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// count adds the counts of the connection to the sums of the Host.
func (l *link) count(c *bridge.Counts) {
	s := l.counts()
	c.Count("FramesSent", s.sent.Operations)
	c.Count("BytesSent", s.sent.Bytes)
	c.Count("FramesReceived", s.received.Operations)
	c.Count("BytesReceived", s.received.Bytes)
	c.Count("CreditStalls", s.creditStalls)
	c.Count("MemoryStalls", s.memoryStalls)
}

// Stats returns the counts of the connection.
func (c *Conn) Stats() Stats {
	s := c.l.counts()
	return Stats{
		Sent:         s.sent,
		Received:     s.received,
		CreditStalls: s.creditStalls,
		MemoryStalls: s.memoryStalls,
		Conn:         c.l.conn.Stats(),
	}
}

// countStall counts data that waits for credits, once until data is sent. The caller holds the lock.
func (l *link) countStall() {
	s := &l.send
	if s.inFlight < maxSends && s.credits() < 2 && s.dataDue() && !l.stalled {
		l.stalled = true
		l.stats.creditStalls++
	}
}
