// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"

	"purerdma/test/connectx/prm"
)

// doorbell handles a store to a doorbell register. The store contains the first 8 bytes of the
// last posted request, or all of it as a BlueFlame copy.
func (q *qp) doorbell(d *Device, u *uar, p []byte) {
	if q.sendCQ == nil || q.uar != u {
		d.violation(q.name(), "a doorbell on page %#x, which is not the QP's", u.n)
		return
	}
	if d.losesDoorbell() {
		return
	}
	q.told(p)
	if d.strict() {
		q.checkDoorbell(p)
	}
	q.run()
}

// rung tracks the request of the last doorbell.
//
// Stores to registers arrive late, and the device uses the doorbell record at each store. It
// may therefore be ahead of the stores by any number of requests, more than the 16 bits of an
// index can express. Stores are neither lost nor reordered, and two consecutive stores are
// fewer WQEBBs apart than an index counts. The device follows them one by one.
type rung struct {
	index  uint16
	behind int // WQEBBs from it to the next request
}

// hear processes the index of a doorbell. It returns the number of WQEBBs between that request
// and the next request to execute, which is at most 0 if that request is still pending.
func (q *qp) hear(index uint16) (behind int) {
	behind = q.rung.behind - int(index-q.rung.index)
	if behind > -1<<q.logSQ { // otherwise no driver can have posted it
		q.rung = rung{index, behind}
	}
	return behind
}

// checkDoorbell compares the store with the request in memory, and the doorbell record with
// both.
func (q *qp) checkDoorbell(p []byte) {
	index := uint16(prm.Ctrl.Index.Get(p))
	behind := q.hear(index)
	if behind > int(q.next-q.done()) {
		return // it was executed, and the driver owns its memory again
	}
	w := q.fetch(index)
	if w == nil {
		return // run reports it
	}
	n := min(len(p), len(w))
	if len(p) == 8 {
		n = 8
	}
	if !bytes.Equal(p[:n], w[:n]) {
		q.d.violation(q.name(), "doorbell %x, but WQE %#x in memory is %x", p[:n], index, w[:n])
	}
	if len(p) > 8 && len(p) < len(w) {
		q.d.violation(q.name(), "a copy of %d bytes of WQE %#x, which has %d", len(p), index, len(w))
	}
	wqebbs := max(1, (len(w)+prm.WQEBB-1)/prm.WQEBB)
	// The driver may have posted more requests in the meantime.
	if posted := q.posted(); int(posted-q.next) < wqebbs-behind {
		q.d.violation(q.name(), "doorbell for WQE %#x up to %#x, but the doorbell record has %#x", index, index+uint16(wqebbs), posted)
	}
}

// checkPolled is like checkDoorbell for a store that was detected late. The driver may have
// posted more requests in the meantime.
func (q *qp) checkPolled(p []byte) {
	index := uint16(prm.Ctrl.Index.Get(p))
	if w := q.fetch(index); w != nil && !bytes.Equal(p, w[:len(p)]) {
		q.d.violation(q.name(), "doorbell %x, but WQE %#x in memory is %x", p, index, w[:len(p)])
	}
}
