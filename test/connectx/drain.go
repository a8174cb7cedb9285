// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// Drain has a QP in RTS stop sending, as a card does by itself when the check of a
// signature fails and the QP was made to stop then: what it has begun with ends, what is
// behind stays, and when nothing is on its way any more there is an event,
// prm.EventSQDrained. SQD_RTS_QP has it go on. It returns whether there is such a QP.
//
// No command does this: mlx5_ib has none, and refuses to move a QP to SQD.
func (d *Device) Drain(qpn uint32) bool {
	d.fabric.lock()
	defer d.fabric.unlock()
	q, ok := d.queues.objects[qpn].(*qp)
	if !ok || q.state != prm.QPRTS {
		return false
	}
	q.state = prm.QPSQDraining
	q.drained()
	return true
}

// drained is called when a request has ended: it may have been the last one of a queue
// that drains.
func (q *qp) drained() {
	if q.state == prm.QPSQDraining && len(q.flights) == 0 {
		q.state = prm.QPSQD
		q.d.queueEvent(prm.EventSQDrained, q.n, prm.QueueTypeQP)
	}
}

// sends says whether the QP sees to requests that it has begun with.
func (q *qp) sends() bool { return q.state == prm.QPRTS || q.state == prm.QPSQDraining }
