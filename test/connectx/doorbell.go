// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"

	"purerdma/test/connectx/prm"
)

// doorbell takes a store to a doorbell register: the first 8 bytes of the last
// request that was posted, or, of a BlueFlame copy, all of it.
func (q *qp) doorbell(d *Device, u *uar, p []byte) {
	if q.sendCQ == nil || q.uar != u {
		d.violation(q.name(), "a doorbell on page %#x, which is not the QP's", u.n)
		return
	}
	q.told(p)
	if d.strict() {
		q.checkDoorbell(p)
	}
	q.run()
}

// rung is the request that the last doorbell named.
//
// Stores to registers take time on their way, and the device goes by the doorbell
// record at each of them. So it may be ahead of them by any number of requests, more
// than the 16 bits of an index can tell. But none is lost or overtaken, and between two
// of them lie fewer WQEBBs than an index counts: they are followed one by one.
type rung struct {
	index  uint16
	behind int // WQEBBs from it to the request to be taken next
}

// hear takes the index that a doorbell has, and returns how many WQEBBs lie between
// that request and the one to be taken next: none or fewer if it is still to be taken.
func (q *qp) hear(index uint16) (behind int) {
	behind = q.rung.behind - int(index-q.rung.index)
	if behind > -1<<q.logSQ { // else no driver can have posted that
		q.rung = rung{index, behind}
	}
	return behind
}

// checkDoorbell compares what was stored with the request in memory, and the doorbell
// record with both.
func (q *qp) checkDoorbell(p []byte) {
	index := uint16(prm.Ctrl.Index.Get(p))
	behind := q.hear(index)
	if behind > int(q.next-q.done()) {
		return // it has been carried out, and its memory is the driver's again
	}
	w := q.fetch(index)
	if w == nil {
		return // run finds out
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
	bbs := max(1, (len(w)+prm.WQEBB-1)/prm.WQEBB)
	// More may have been posted since.
	if posted := q.posted(); int(posted-q.next) < bbs-behind {
		q.d.violation(q.name(), "doorbell for WQE %#x up to %#x, but the doorbell record has %#x", index, index+uint16(bbs), posted)
	}
}

// checkPolled is checkDoorbell for a store that was seen late: more may have been
// posted since.
func (q *qp) checkPolled(p []byte) {
	index := uint16(prm.Ctrl.Index.Get(p))
	if w := q.fetch(index); w != nil && !bytes.Equal(p, w[:len(p)]) {
		q.d.violation(q.name(), "doorbell %x, but WQE %#x in memory is %x", p, index, w[:len(p)])
	}
}
