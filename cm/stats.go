// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"errors"
	"os"
	"sync/atomic"

	"purerdma/inflight"
	"purerdma/verbs"
)

// DialStats counts the attempts to connect by their outcome. An attempt begins after the look-up of the name and
// the check of the options. It ends when Resolve fails, or with Connect.
type DialStats struct {
	Established uint64
	Rejected    uint64 // with a *RejectError of the peer
	Unreachable uint64 // with an *UnreachableError
	Cancelled   uint64 // the context ended first
	Failed      uint64 // for another reason
}

// AcceptStats counts the connect requests by their outcome.
type AcceptStats struct {
	Established uint64
	Rejected    uint64 // by the program, with Request.Reject or Request.Close
	Refused     uint64 // by the library, as Listener.Refused counts them
	Expired     uint64 // not answered within ListenConfig.HandshakeTimeout
	Failed      uint64 // Accept returned an error
}

// EndStats counts the ends of established connections. Each connection counts once.
type EndStats struct {
	Local   uint64 // this side disconnected
	Peer    uint64 // the peer disconnected
	Removed uint64 // the device was removed
	Closed  uint64 // Close came before another end
}

// Stats counts the connections of a Host. It contains only connections that were made by Dialers and
// Listeners. IDs that a program uses directly do not count, and neither do datagrams.
type Stats struct {
	Open    int // established connections that have not been closed
	Dials   DialStats
	Accepts AcceptStats
	Ends    EndStats
	// Broken counts the connections whose QP failed, or of which an operation was cancelled. Their
	// ends count in Ends.
	Broken uint64
}

// StatsOf returns the counts of a Host since the start of the process. nil means verbs.DefaultHost.
func StatsOf(h *verbs.Host) Stats {
	if h == nil {
		h = verbs.DefaultHost()
	}
	c := countersOf(h)
	return Stats{
		Open:    int(c.open.Load()),
		Dials:   c.dials.stats(),
		Accepts: c.accepts.stats(),
		Ends:    EndStats{Local: c.local.Load(), Peer: c.peer.Load(), Removed: c.removed.Load(), Closed: c.closed.Load()},
		Broken:  c.broken.Load(),
	}
}

// counters has the counts of a Host.
type counters struct {
	open                         atomic.Int64
	dials                        dialCounters
	accepts                      acceptCounters
	local, peer, removed, closed atomic.Uint64
	broken                       atomic.Uint64
}

func countersOf(h *verbs.Host) *counters {
	return verbsInternal.HostValue(h, func() any { return new(counters) }).(*counters)
}

type dialCounters struct{ established, rejected, unreachable, cancelled, failed atomic.Uint64 }

// count counts an attempt with a result.
func (c *dialCounters) count(err error) {
	var reject *RejectError
	var unreachable *UnreachableError
	switch {
	case err == nil:
		c.established.Add(1)
	case errors.As(err, &reject):
		c.rejected.Add(1)
	case errors.As(err, &unreachable):
		c.unreachable.Add(1)
	case errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded):
		c.cancelled.Add(1)
	default:
		c.failed.Add(1)
	}
}

func (c *dialCounters) stats() DialStats {
	return DialStats{Established: c.established.Load(), Rejected: c.rejected.Load(), Unreachable: c.unreachable.Load(),
		Cancelled: c.cancelled.Load(), Failed: c.failed.Load()}
}

type acceptCounters struct{ established, rejected, refused, expired, failed atomic.Uint64 }

func (c *acceptCounters) stats() AcceptStats {
	return AcceptStats{Established: c.established.Load(), Rejected: c.rejected.Load(), Refused: c.refused.Load(),
		Expired: c.expired.Load(), Failed: c.failed.Load()}
}

// outcome is a counter of acceptCounters.
type outcome func(*acceptCounters) *atomic.Uint64

func accepted(c *acceptCounters) *atomic.Uint64    { return &c.established }
func rejected(c *acceptCounters) *atomic.Uint64    { return &c.rejected }
func expired(c *acceptCounters) *atomic.Uint64     { return &c.expired }
func notAccepted(c *acceptCounters) *atomic.Uint64 { return &c.failed }

// countOutcome counts the first outcome of a request for its listener and the Host.
func (p *pendingConn) countOutcome(o outcome) {
	if p.accepts == nil || p.ep.id.datagram() || p.outcome.Swap(true) {
		return // no request for a connection, or counted
	}
	o(p.accepts).Add(1)
	o(&p.ep.ch.counters().accepts).Add(1)
}

func (ch *EventChannel) counters() *counters { return countersOf(ch.host) }

// Values of endpoint.counted.
const (
	notCounted  uint32 = iota
	openCounted        // counted as open
	endCounted         // and its end
)

// countOpen counts the established connection.
func (ep *endpoint) countOpen() {
	ep.counted.Store(openCounted)
	ep.ch.counters().open.Add(1)
	// The end and the failure may have come before counted was set.
	if ep.finished.Load() {
		ep.countEnd(ep.end.endCounter)
	}
	if ep.failed() != nil {
		ep.countBroken()
	}
}

// countEnd counts the first end of an established connection.
func (ep *endpoint) countEnd(end func(*counters) *atomic.Uint64) {
	if ep.counted.CompareAndSwap(openCounted, endCounted) {
		end(ep.ch.counters()).Add(1)
	}
}

// endCounter returns the counter of an End.
func (e End) endCounter(c *counters) *atomic.Uint64 {
	switch {
	case e.Event == EventDeviceRemoval:
		return &c.removed
	case e.Local:
		return &c.local
	}
	return &c.peer
}

func closedCounter(c *counters) *atomic.Uint64 { return &c.closed }

// countBroken counts the first failure of an established connection.
func (ep *endpoint) countBroken() {
	if ep.counted.Load() != notCounted && !ep.brokenCounted.Swap(true) {
		ep.ch.counters().broken.Add(1)
	}
}

// Stats returns the outcomes of the connect requests of the listener.
func (l *Listener) Stats() AcceptStats {
	s := l.accepts.stats()
	s.Refused = l.Refused()
	return s
}

// ConnStats counts the operations of a connection.
type ConnStats struct {
	QP verbs.QPStats
	// SendCQ and RecvCQ contain the completions of all QPs of the CQ. Connections of a Shared have the
	// same receive CQ. If both queues have the same CQ, both fields have its counts.
	SendCQ, RecvCQ verbs.CQStats
	// Operations has the counts of the queue that Conn.Operations returns.
	Operations inflight.Stats
}

// Stats returns the counts of the connection. They stay available after Close. As for verbs.QP.Stats, a
// goroutine that builds a Batch must not call it.
func (c *Conn) Stats() ConnStats {
	s := ConnStats{QP: c.qp.Stats()}
	if cq := c.qp.SendCQ(); cq != nil {
		s.SendCQ = cq.Stats()
	}
	if cq := c.qp.RecvCQ(); cq != nil {
		s.RecvCQ = cq.Stats()
	}
	if q := c.ep.ops.Load(); q != nil {
		s.Operations = q.Stats()
	}
	return s
}
