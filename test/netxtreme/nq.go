// SPDX-License-Identifier: Apache-2.0

package netxtreme

// nq is a notification queue. Its entries interrupt the host.
type nq struct {
	queue
	vector int
	armed  bool
	users  int // completion queues, and the RCFW channel
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

// notifyCompletions writes the notification of a completion queue.
func (q *nq) notifyCompletions(handle uint64) {
	var e [entrySize]byte
	le.PutUint16(e[:], notifyCQ)
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
	armed  bool
	users  int // transmit rings
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
		q.armed = false
		q.nq.notifyCompletions(q.handle)
	}
}

// ring handles a doorbell with the consumer index.
func (q *completionRing) ring(index uint32, arm bool) {
	if !q.consume(index) {
		return
	}
	if arm {
		q.armed = true
		q.raise()
	}
}
