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
	if d.strict() {
		q.checkDoorbell(p)
	}
	q.run()
}

// checkDoorbell compares what was stored with the request in memory, and the doorbell
// record with both.
func (q *qp) checkDoorbell(p []byte) {
	index := uint16(prm.Ctrl.Index.Get(p))
	// A store takes time on its way. Meanwhile an earlier one may have had the
	// request carried out, whose memory is the driver's again then.
	if int16(index-q.done()) < 0 {
		return
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
	end := index + uint16(max(1, (len(w)+prm.WQEBB-1)/prm.WQEBB))
	// More may have been posted since.
	if posted := q.posted(); int16(posted-end) < 0 {
		q.d.violation(q.name(), "doorbell for WQE %#x up to %#x, but the doorbell record has %#x", index, end, posted)
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
