// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// Drain makes a QP in RTS stop sending. A card does so itself if a signature check fails and
// the QP is configured to stop. Started requests complete, and later ones remain. When no
// request is in flight, the device sends the event prm.EventSQDrained. SQD_RTS_QP makes the QP
// continue. Drain returns whether there is such a QP.
//
// No command does this. mlx5_ib has none, and rejects a move of a QP to SQD.
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

// drained is called when a request has ended. It may be the last request of a draining queue.
func (q *qp) drained() {
	if q.state == prm.QPSQDraining && len(q.flights) == 0 {
		q.state = prm.QPSQD
		q.d.queueEvent(prm.EventSQDrained, q.n, prm.QueueTypeQP)
	}
}

// sends reports whether the QP processes started requests.
func (q *qp) sends() bool { return q.state == prm.QPRTS || q.state == prm.QPSQDraining }
