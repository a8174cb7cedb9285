// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import "purerdma/verbs"

// What the traffic does otherwise on iWARP is to spare siw what it is known to do
// wrong (docs/driver-faults.md), and what iWARP does not promise. EADDRINUSE is the
// lane's affair.

// zeroCopy is how many bytes of a request without a completion of its own siw hands
// to TCP as they stand in memory. TCP may look at them after a later request has
// completed.
const zeroCopy = 4096

// spare changes a request before it is issued.
func (e *end) spare(wr *verbs.SendWR, done func()) func() {
	n := 0
	for i := range wr.SGList {
		n += int(wr.SGList[i].Length)
	}
	if n >= zeroCopy {
		wr.Flags |= verbs.SendSignaled
	}
	if e.reads > 0 {
		wr.Flags &^= verbs.SendFence
	}
	if wr.Opcode != verbs.OpRead && wr.Opcode != verbs.OpReadInv {
		return done
	}
	// With a completion of its own, a READ has no request wait for it.
	wr.Flags = wr.Flags&^verbs.SendFence | verbs.SendSignaled
	e.reads++
	return func() {
		e.reads--
		done()
	}
}

// mayRead reports whether one more READ has no request wait for others. One that
// waits keeps siw from answering the READs of the peer, which may wait as well.
func (e *end) mayRead() bool { return !e.node.caps.iwarp || e.reads < readDepth }

// nudge sends something more when the first message may have overtaken the accept:
// siw does not look at it before the next one comes.
func (e *end) nudge() {
	if e.node.caps.iwarp && e.ready && e.side == 0 && e.over == nil && len(e.queue) == 0 && e.nudged < 3 {
		e.nudged++
		e.issue(verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled}, func() {})
		e.post()
	}
}

// owesCredit reports whether the active side waits for word that its last message
// has been seen: a SEND of iWARP is complete when it is sent, and siw throws away
// what comes just before the end of a connection.
func (e *end) owesCredit() bool {
	return e.node.caps.iwarp && e.side == 1 && e.finSent && e.fin != nil && e.got == e.fin.a && e.told < e.got
}

// mayClose reports whether that word has come.
func (e *end) mayClose() bool { return !e.node.caps.iwarp || e.side == 1 || e.acked == e.sent }
