// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"context"

	"purerdma/verbs"
)

// What the traffic does otherwise on iWARP is to spare siw what it is known to do
// wrong (docs/reference/driver-faults.md), and what iWARP does not promise. EADDRINUSE is the
// lane's affair.

// connecting returns the context that a connection is made with. It ends with the first
// fault, but not on iWARP: a TCP connection that is closed before the siw of the other
// side has taken it is the end of the listener there, and may be that of the kernel. (That
// a process is killed does no such harm, because those only listen.)
func (n *node) connecting() (context.Context, context.CancelFunc) {
	ctx := n.s.failed
	if n.caps.iwarp {
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithTimeout(ctx, n.s.patience)
}

// zeroCopy is how many bytes of a request without a completion of its own siw hands
// to TCP as they stand in memory. TCP may look at them after a later request has
// completed.
const zeroCopy = 4096

// shortest is the least that is sent of memory, and read. Up to 32 bytes in one
// element siw takes out of the memory by its address, when its note says that it is
// in a system call of the process, and that note may be stale: then its own thread
// fails, and with it the connection. (Such a message may cross the end of a page, too,
// which siw gets wrong.)
const shortest = 33

// spare changes a request before it is issued.
func (e *end) spare(wr *verbs.SendWR) {
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
	if wr.Opcode == verbs.OpRead || wr.Opcode == verbs.OpReadInv {
		// With a completion of its own, a READ has no request wait for it.
		wr.Flags = wr.Flags&^verbs.SendFence | verbs.SendSignaled
	}
}

// noteFlushed notes a request that has failed.
func (e *end) noteFlushed(id uint64, op verbs.SendOpcode) {
	if e.node.caps.iwarp && (op == verbs.OpRead || op == verbs.OpReadInv) {
		if e.flushed == nil {
			e.flushed = map[uint64]bool{}
		}
		e.flushed[id] = true
	}
}

// flushedTwice reports whether a completion is the second one of a READ that siw had
// begun with, and not sent, when the connection ended.
func (e *end) flushedTwice(wc verbs.WC) bool {
	twice := e.flushed[wc.ID] && wc.Status == verbs.WCWRFlushErr
	delete(e.flushed, wc.ID)
	return twice
}

// enough returns how many bytes are sent of memory, or read, when n were drawn.
func (e *end) enough(n int) int {
	if e.node.caps.iwarp {
		return max(n, shortest)
	}
	return n
}

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
