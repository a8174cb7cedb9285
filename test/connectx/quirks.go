// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"

	"purerdma/test/connectx/prm"
)

// Quirks are deviations of a card from the device's default behavior. The device and its
// drivers share assumptions about cards, and a test on the device cannot detect a wrong one. A
// device with quirks shows the behavior of a driver whose assumption is wrong.
type Quirks struct {
	// ExactDoorbells makes a doorbell apply only to its QP and request, or to its CQ, as on a
	// card. Without it the device uses the doorbell records, so that the next doorbell makes up
	// for a lost one. It applies to QPs that are created later. If registers are memory (see
	// MapUAR), each QP or CQ needs its own register, because of several stores the device only
	// reads the last one.
	ExactDoorbells bool
	// ReceiveCounterModulo makes completions of a QP's own receives contain the number of the
	// slot, instead of a continuous count of 16 bits.
	ReceiveCounterModulo bool
	// HoldResize delays the last entry of the old ring of a resized CQ until ReleaseResize.
	HoldResize bool
}

// quirks contains the state of a device's quirks.
type quirks struct {
	Quirks
	resized   []resizeEntry // held entries
	destroyed *forgery      // for the last destroyed QP
}

// resizeEntry is the last entry of a CQ's old ring.
type resizeEntry struct {
	buffer  buffer
	size    int
	logSize uint
	index   uint32
	entry   completion
}

// maxHeldResizes is the maximum number of held entries.
const maxHeldResizes = 64

// forgery contains the fields of a completion without a request.
type forgery struct {
	n, index       uint32
	send, recv     uint32 // CQs, 0 for none
	counter, taken uint16
}

// SetQuirks sets the deviations of the device.
func (d *Device) SetQuirks(q Quirks) {
	d.fabric.lock()
	defer d.fabric.unlock()
	d.quirks.Quirks = q
}

// holdResize holds the last entry of a CQ's old ring. It returns false if the entry must be
// written now.
func (d *Device) holdResize(q *cq, e *completion) bool {
	ci, ok := q.consumer(d)
	full := !ok || (q.pi-ci)&prm.ConsumerIndexMask >= 1<<q.logSize
	if !d.quirks.HoldResize || full || len(d.quirks.resized) == maxHeldResizes {
		return false
	}
	d.quirks.resized = append(d.quirks.resized, resizeEntry{q.buffer, q.size, q.logSize, q.pi, *e})
	q.pi++
	return true
}

// ReleaseResize writes the entries that HoldResize holds, if their memory still exists. It
// returns the number of written entries.
func (d *Device) ReleaseResize() (written int) {
	d.fabric.lock()
	defer d.fabric.unlock()
	for _, r := range d.quirks.resized {
		at := uint64(r.index&(1<<r.logSize-1)) * uint64(r.size)
		if b := r.buffer.at(d.mem, at, r.size); b != nil {
			writeEntry(b[r.size-prm.CQELen:], &r.entry, r.index, r.logSize)
			written++
		}
	}
	d.quirks.resized = nil
	return written
}

// rememberQP saves a QP's state for StrayCompletion.
func (d *Device) rememberQP(q *qp) { d.quirks.destroyed = q.forge() }

// forge describes completions of the last request and the last receive that the device
// executed, which have completed.
func (q *qp) forge() *forgery {
	r := &forgery{n: q.n, index: uint32(prm.QPC.UserIndex.Get(q.context[:])), counter: q.next - 1}
	if q.sendCQ != nil {
		r.send = q.sendCQ.n
	}
	if q.recvCQ != nil && q.recv != nil && q.srq == nil {
		r.recv, r.taken = q.recvCQ.n, q.recv.taken-1
	}
	return r
}

// StrayCompletion completes one more request or receive of the last destroyed QP, like a card
// whose DESTROY_QP returns too early. It returns whether there was such a QP whose CQ still
// exists and has room.
func (d *Device) StrayCompletion(receive bool) bool {
	d.fabric.lock()
	defer d.fabric.unlock()
	r := d.quirks.destroyed
	return r != nil && r.complete(d, receive)
}

// WrongCompletion completes the last request or receive of a QP once more, or one before the
// first. It returns whether there is such a QP whose CQ has room.
func (d *Device) WrongCompletion(qpn uint32, receive bool) bool {
	d.fabric.lock()
	defer d.fabric.unlock()
	q, ok := d.queues.objects[qpn].(*qp)
	return ok && q.forge().complete(d, receive)
}

// complete writes the completion of a request or of a receive.
func (r *forgery) complete(d *Device, receive bool) bool {
	var e completion
	c := e[:]
	cqn := r.send
	prm.CQE.Opcode.Set(c, prm.CQEReq)
	prm.CQE.SendOpcode.Set(c, prm.WQESend)
	prm.CQE.WQECounter.Set(c, uint64(r.counter))
	if receive {
		cqn = r.recv
		prm.CQE.Opcode.Set(c, prm.CQERespSend)
		prm.CQE.SendOpcode.Set(c, 0)
		prm.CQE.WQECounter.Set(c, uint64(r.taken))
	}
	prm.CQE.UserIndex.Set(c, uint64(r.index))
	prm.CQE.QPN.Set(c, uint64(r.n))
	q := d.cqs.objects[cqn]
	return q != nil && q.complete(d, &e)
}

// receiveCounter returns the number of a receive in completions.
func (d *Device) receiveCounter(r *receiveQueue, index uint16) uint64 {
	if d.defects.SwappedCounters && !r.linked {
		index ^= 1
	}
	if d.defects.KeptCounters {
		index += r.before
	}
	if d.quirks.ReceiveCounterModulo && !r.linked {
		return uint64(index) & (1<<r.logSize - 1)
	}
	return uint64(index)
}

// told handles a doorbell of a QP with exact doorbells. The QP may execute requests up to the
// end of the request with the first bytes p.
func (q *qp) told(p []byte) {
	if !q.exact {
		return
	}
	wqebbs := max(1, (int(prm.Ctrl.DS.Get(p))*prm.Octoword+prm.WQEBB-1)/prm.WQEBB)
	if ahead := wqebbs - q.hear(uint16(prm.Ctrl.Index.Get(p))); ahead > q.ahead && ahead <= 1<<q.logSQ {
		q.ahead = ahead
	}
}

// available returns the WQEBB up to which the QP may execute requests.
func (q *qp) available() uint16 {
	posted := q.posted()
	if q.exact && int(posted-q.next) > q.ahead {
		return q.next + uint16(max(0, q.ahead))
	}
	return posted
}

// rungExactly is like rung with exact doorbells.
func (u *uar) rungExactly(d *Device, off int, v []byte) {
	if off == RegisterCQ {
		if q := d.cqs.objects[binary.BigEndian.Uint32(v[4:])]; q != nil && q.uar == u {
			q.armBy(d, binary.BigEndian.Uint32(v))
		}
		return
	}
	switch q := d.queues.objects[uint32(prm.Ctrl.QPN.Get(v))].(type) {
	case *qp:
		if q.uar != u {
			return
		}
		if q.told(v); d.strict() && q.waits(uint16(prm.Ctrl.Index.Get(v))) {
			q.checkPolled(v)
		}
		q.run()
	case *sq:
		if q.uar == u && q.state != prm.QueueReset {
			q.run(d)
		}
	}
}
