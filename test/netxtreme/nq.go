// SPDX-License-Identifier: Apache-2.0

package netxtreme

// nq is a notification queue. Its entries interrupt the host.
type nq struct {
	queue
	vector   int
	armed    bool
	users    int  // completion queues, and the RCFW channel
	ethernet bool // whether it has had completion rings of Ethernet
}

// notify writes an entry, and interrupts the host if the queue is armed.
func (q *nq) notify(e [entrySize]byte) {
	if q.post(e) {
		q.raise()
	}
}

func (q *nq) raise() {
	if q.armed && q.pi != q.ci {
		q.armed = false
		q.d.interrupt(q.vector)
	}
}

// arming is the state of a queue that notifies its driver once each time it is armed.
type arming struct {
	armed  bool
	toggle uint8 // 2 bits, which count notifications of P7
}

// arm arms a queue. A doorbell of P7 contains the toggle of the last notification. A device ignores
// an older doorbell, which has another toggle.
func (a *arming) arm(d *Device, toggle uint8) bool {
	if d.p7() && toggle != a.toggle {
		d.trace("a doorbell with toggle %d, want %d", toggle, a.toggle)
		return false
	}
	a.armed = true
	return true
}

// disarm returns the toggle of a notification.
func (a *arming) disarm(d *Device) uint8 {
	if a.armed = false; d.p7() {
		a.toggle = (a.toggle + 1) & 3
	}
	return a.toggle
}

// notifyCompletions writes the notification of a completion queue.
func (q *nq) notifyCompletions(handle uint64, toggle uint8) {
	var e [entrySize]byte
	le.PutUint16(e[:], notifyCQ|uint16(toggle)<<6)
	le.PutUint32(e[4:], uint32(handle))
	le.PutUint32(e[12:], uint32(handle>>32))
	q.notify(e)
}

// ring handles a doorbell with the consumer index.
func (q *nq) ring(index uint32, arm bool) {
	if !q.consume(index) {
		return
	}
	if arm {
		q.armed = true
		q.raise()
	}
}

// completionRing is a completion ring of Ethernet.
type completionRing struct {
	queue
	nq     *nq
	handle uint64
	arming
	users int // transmit rings
}

// complete writes the entries of a completion. It loses them without room.
func (q *completionRing) complete(entries ...[entrySize]byte) {
	if q.pi-q.ci+uint32(len(entries)) > q.depth {
		q.d.violation(q.name(), "it has no room for %d entries", len(entries))
		return
	}
	for _, e := range entries {
		if !q.post(e) {
			return
		}
	}
	q.raise()
}

func (q *completionRing) raise() {
	if q.armed && q.pi != q.ci {
		q.nq.notifyCompletions(q.handle, q.disarm(q.d))
	}
}

// ring handles a doorbell with the consumer index.
func (q *completionRing) ring(index uint32, arm bool, toggle uint8) {
	if q.consume(index) && arm && q.arm(q.d, toggle) {
		q.raise()
	}
}
