// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"fmt"

	"purerdma/test/pci"
)

// eq is an event queue.
type eq struct {
	d      *Device
	vector int
	addr   uint64
	depth  uint32 // a power of two
	pi, ci uint16
	armed  bool
	users  int // completion queues
}

// newEQ creates an event queue.
func newEQ(d *Device, addr, depth uint64, vector int) (*eq, error) {
	if depth == 0 || depth > 1<<logMaxEQ || depth&(depth-1) != 0 {
		return nil, fmt.Errorf("event queue of %d entries, want a power of two up to %d", depth, 1<<logMaxEQ)
	}
	q := &eq{d: d, vector: vector, addr: addr, depth: uint32(depth), armed: true}
	if addr%eqeSize != 0 || d.mem.Bytes(addr, int(depth)*eqeSize) == nil {
		return nil, fmt.Errorf("the host has no memory for %d events at %#x", depth, addr)
	}
	return q, nil
}

// ringEQ handles a doorbell of an event queue, which may be nil.
func (d *Device) ringEQ(q *eq, name string, v uint64) {
	ci := uint16(v) // the driver's index has 16 bits
	switch {
	case q == nil:
		d.violation(name, "a doorbell, but there is no such queue")
	case q.pi-ci > q.pi-q.ci:
		d.violation(name, "a doorbell with consumer index %#x, which is not between %#x and %#x", ci, q.ci, q.pi)
	default:
		q.ci = ci
		if bits(v, 31, 31) != 0 {
			q.armed = true
			q.raise()
		}
	}
}

// raise interrupts the host if the queue is armed and has events.
func (q *eq) raise() {
	if q.armed && q.pi != q.ci {
		q.armed = false
		q.d.interrupt(q.vector)
	}
}

// post writes an event. It sets the owner bit in the first word.
func (q *eq) post(e [eqeSize]byte) {
	if uint32(q.pi-q.ci) == q.depth {
		q.d.violation(fmt.Sprintf("EQ of vector %d", q.vector), "it has no room for an event")
		return
	}
	b := q.d.mem.Bytes(q.addr+uint64(uint32(q.pi)&(q.depth-1))*eqeSize, eqeSize)
	if b == nil || !pci.Aligned(b) {
		return // the host has removed the memory
	}
	if uint32(q.pi)&q.depth == 0 {
		e[3] |= 0x80
	}
	copy(b[4:], e[4:])
	pci.StoreWord(b, [4]byte(e[:4]))
	q.pi++
	q.raise()
}

// postCompletion writes an event of a completion queue.
func (q *eq) postCompletion(cqn, pi uint32) {
	var e [eqeSize]byte
	le.PutUint64(e[:], 1<<63|uint64(pi)<<32|uint64(cqn))
	q.post(e)
}

// event writes an asynchronous event of the object n.
func (d *Device) event(kind uint8, n uint32) {
	d.trace("event %d of %#x", kind, n)
	if d.aeq == nil {
		return
	}
	var e [eqeSize]byte
	e[2] = kind
	le.PutUint32(e[4:], n)
	d.aeq.post(e)
}
