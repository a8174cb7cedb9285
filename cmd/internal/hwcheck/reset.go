// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"fmt"

	"purerdma/verbs"
)

// staleID is in the IDs of requests before a reset.
const staleID uint64 = 1 << 41

// Reset resets the QP of an end and connects it again.
func (x *Ends) Reset(n int, _ *struct{}) error {
	e, err := x.s.find(n)
	if err != nil {
		return err
	}
	return e.reset()
}

// reset resets the QP and connects it to the same peer.
func (e *end) reset() error {
	if err := e.qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState); err != nil {
		return fmt.Errorf("reset the QP: %w", err)
	}
	if err := e.path.Init(e.qp); err != nil {
		return err
	}
	return e.join(e.remote, e.path.MTU)
}

// checkQPReset resets both QPs of a connection, with unused receives and completions that were not polled. A device counts requests from 0
// after a reset, so it also resets after each number of requests that differs from a multiple of the size of the queue.
func checkQPReset(t *trial) {
	const depth = 16
	l := t.link(Config{Cap: verbs.QPCap{SendWR: depth, RecvWR: depth}})
	left := 0
	for round := range 12 {
		for i := range 1 + round*7 {
			sendOne(l, round*100+i, 1+i%100)
		}
		for i := range round % depth {
			l.farRecv(staleID, piece{0, 8}) // with some rounds less than the message below
			t.must("post a receive", l.recv(staleID, []piece{{i * 8, 8}}))
		}
		if round%depth > 0 { // completions that are not polled
			wr := verbs.SendWR{ID: staleID, Opcode: verbs.OpSend, SGList: l.elements([]piece{{0, 8}})}
			l.post(signaled(wr))
			l.farReceived(1)
			l.farPost(PlainWR{ID: staleID, Opcode: verbs.OpSend, Flags: verbs.SendSignaled}, piece{0, 8})
			l.succeeded("SEND of the far end", l.farWait(true, 1))
		}
		t.must("reset", l.reset())
		t.call("Reset", l.far, &struct{}{})
		left += l.stale(l.sendCQ) + l.stale(l.recvCQ)
	}
	t.note("%d completions of reset QPs", left)
	if left > 0 && needsConnectX(t) == "" {
		t.fail("%d completions of requests before a reset, want none", left)
	}
	l.settle()
}

// stale polls the completions that a reset has left, and returns their number. Drivers whose queues the kernel fills may leave them.
func (l *link) stale(cq *verbs.CQ) (n int) {
	var wcs [1]verbs.WC
	for {
		got, err := cq.Poll(wcs[:])
		l.t.must("poll", err)
		if got == 0 {
			return n
		}
		if wcs[0].ID != staleID {
			l.t.fail("completion after a reset: %+v, want ID %#x", wcs[0], staleID)
		}
		n++
	}
}
