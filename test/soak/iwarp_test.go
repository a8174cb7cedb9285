// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"context"

	"purerdma/verbs"
)

// The restrictions of the traffic on iWARP avoid siw's known faults
// (docs/reference/driver-faults.md), and operations that iWARP does not guarantee. The lane
// handles EADDRINUSE.

// connecting returns the context for making a connection. It ends with the first fault, except
// on iWARP. If a TCP connection is closed before the other side's siw has accepted it, the
// listener there ends, and possibly the kernel. A killed process is harmless in this respect,
// because it only listens.
func (n *node) connecting() (context.Context, context.CancelFunc) {
	ctx := n.s.failed
	if n.caps.iwarp {
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithTimeout(ctx, n.s.patience)
}

// zeroCopy is the size of unsignaled requests whose memory siw passes to TCP without a copy.
// TCP may access the memory after a later request has completed.
const zeroCopy = 4096

// shortest is the minimum size of sent or read memory. siw copies up to 32 bytes in one element
// from the memory's address, if its flag is set because it runs in a system call of the process.
// That flag may be stale. Then siw's own thread fails, and with it the connection. Such a
// message may also cross the end of a page, which siw handles wrongly.
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
		// A signaled READ does not make another request wait for it.
		wr.Flags = wr.Flags&^verbs.SendFence | verbs.SendSignaled
	}
}

// noteFlushed records a failed request.
func (e *end) noteFlushed(id uint64, op verbs.SendOpcode) {
	if e.node.caps.iwarp && (op == verbs.OpRead || op == verbs.OpReadInv) {
		if e.flushed == nil {
			e.flushed = map[uint64]bool{}
		}
		e.flushed[id] = true
	}
}

// flushedTwice reports whether a completion is the second one of a READ that siw had started
// but not sent when the connection ended.
func (e *end) flushedTwice(wc verbs.WC) bool {
	twice := e.flushed[wc.ID] && wc.Status == verbs.WCWRFlushErr
	delete(e.flushed, wc.ID)
	return twice
}

// enough returns the number of bytes to send or read, for a random number n.
func (e *end) enough(n int) int { return e.node.enough(n) }

func (n *node) enough(bytes int) int {
	if n.caps.iwarp {
		return max(bytes, shortest)
	}
	return bytes
}

// nudge sends another message if the first one may have overtaken the accept, because siw
// processes it only when the next one arrives.
func (e *end) nudge() {
	if e.node.caps.iwarp && e.ready && e.side == 0 && e.over == nil && len(e.queue) == 0 && e.nudged < 3 {
		e.nudged++
		e.issue(verbs.SendWR{Opcode: verbs.OpWrite, Flags: verbs.SendSignaled}, func() {})
		e.post()
	}
}

// unheard reports whether the connection has ended before the first message of the active side, which had
// possibly given it up before the accept (errLate). Otherwise the active side reports the fault.
func (e *end) unheard() bool { return e.node.caps.iwarp && e.side == 1 && !e.heard }

func (f *flight) unheard() bool {
	select {
	case <-f.heard:
		return false
	default:
		return f.node.caps.iwarp && f.side == 1
	}
}

// owesCredit reports whether the active side waits for the acknowledgment of its last message.
// A SEND of iWARP completes when it is sent, and siw discards data that arrive just before the
// end of a connection.
func (e *end) owesCredit() bool {
	return e.node.caps.iwarp && e.side == 1 && e.finSent && e.fin != nil && e.got == e.fin.a && e.told < e.got
}

// mayClose reports whether that acknowledgment has arrived.
func (e *end) mayClose() bool { return !e.node.caps.iwarp || e.side == 1 || e.acked == e.sent }
