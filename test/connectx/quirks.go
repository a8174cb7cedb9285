// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"

	"purerdma/test/connectx/prm"
)

// Quirks are ways in which a card may differ from what this device does otherwise. The
// device and its drivers share beliefs about cards, and no test on the device shows a
// wrong one; a device with quirks shows what a driver does when a belief is wrong.
type Quirks struct {
	// ExactDoorbells: a store to a register is for the QP and the request, or for the CQ,
	// that it names, as a card takes it. Without it the device goes by the doorbell
	// records, so that the next doorbell makes good for one that was lost. This is for
	// QPs that are made afterwards. Where registers are memory (see MapUAR), a QP or CQ
	// must have one of its own: of several stores the device sees the last one only.
	ExactDoorbells bool
	// ReceiveCounterModulo: completions of a QP's own receives have the number of the
	// slot, not a count of 16 bits that goes on.
	ReceiveCounterModulo bool
	// HoldResize: the last entry of the old ring of a CQ that was resized is not written
	// before ReleaseResize.
	HoldResize bool
}

// quirks is what a device keeps for its quirks.
type quirks struct {
	Quirks
	resized   []resizeEntry // that are held
	destroyed *forgery      // of the last QP that was destroyed
}

// resizeEntry is the entry that ends the old ring of a CQ.
type resizeEntry struct {
	buffer  buffer
	size    int
	logSize uint
	index   uint32
	entry   completion
}

// maxHeldResizes bounds the entries that are held.
const maxHeldResizes = 64

// forgery is what a completion that no request has asked for has of its QP.
type forgery struct {
	n, index       uint32
	send, recv     uint32 // CQs, 0 for none
	counter, taken uint16
}

// SetQuirks changes how the device differs from others.
func (d *Device) SetQuirks(q Quirks) {
	d.fabric.lock()
	defer d.fabric.unlock()
	d.quirks.Quirks = q
}

// holdResize keeps the entry that ends the old ring of a CQ. It returns false if the
// entry is to be written now.
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

// ReleaseResize writes the entries that HoldResize has kept, as far as their memory is
// still there, and returns how many it wrote.
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

// rememberQP keeps what StrayCompletion needs of a QP.
func (d *Device) rememberQP(q *qp) { d.quirks.destroyed = q.forge() }

// forge describes completions of the request and the receive that the device took last,
// which have completed.
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

// StrayCompletion completes one more request, or receive, of the QP that was destroyed
// last, as a card could whose DESTROY_QP returns too early. It returns whether there
// was such a QP, and its CQ is still there and has room.
func (d *Device) StrayCompletion(receive bool) bool {
	d.fabric.lock()
	defer d.fabric.unlock()
	r := d.quirks.destroyed
	return r != nil && r.complete(d, receive)
}

// WrongCompletion completes the last request, or the last receive, of a QP once more, or
// one before the first. It returns whether there is such a QP, and its CQ has room.
func (d *Device) WrongCompletion(qpn uint32, receive bool) bool {
	d.fabric.lock()
	defer d.fabric.unlock()
	q, ok := d.queues.objects[qpn].(*qp)
	return ok && q.forge().complete(d, receive)
}

// complete writes the completion of a request, or of a receive.
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

// receiveCounter is how completions name a receive.
func (d *Device) receiveCounter(r *receiveQueue, index uint16) uint64 {
	if d.quirks.ReceiveCounterModulo && !r.linked {
		return uint64(index) & (1<<r.logSize - 1)
	}
	return uint64(index)
}

// told takes a doorbell of a QP with exact doorbells: it may go on to the end of the
// request that the first bytes p name.
func (q *qp) told(p []byte) {
	if !q.exact {
		return
	}
	bbs := max(1, (int(prm.Ctrl.DS.Get(p))*prm.Octoword+prm.WQEBB-1)/prm.WQEBB)
	if ahead := bbs - q.hear(uint16(prm.Ctrl.Index.Get(p))); ahead > q.ahead && ahead <= 1<<q.logSQ {
		q.ahead = ahead
	}
}

// available returns up to which WQEBB the QP may take requests.
func (q *qp) available() uint16 {
	posted := q.posted()
	if q.exact && int(posted-q.next) > q.ahead {
		return q.next + uint16(max(0, q.ahead))
	}
	return posted
}

// rungExactly is rung with exact doorbells.
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
