// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"fmt"

	"purerdma/test/pci"
)

// cq is a completion queue.
type cq struct {
	d           *Device
	n           uint32
	handle      uint64
	dpi         uint32
	nq          *nq
	completions workQueue
	users       int // QPs
	events      uint16

	arming
	solicited bool   // whether only solicited completions cause a notification.
	last      uint64 // index after the last solicited completion.
	cutoff    bool   // whether the device waits for the driver to leave the old ring.
}

const cqeSize = 32

// Types of completions.
const (
	completeRequest  = 0
	completeReceive  = 1 // of RC
	completeDatagram = 2
	completeTerminal = 14
	completeCutoff   = 15
)

// cqe is a completion.
type cqe [cqeSize]byte

func (e *cqe) set(kind, status uint8, flags uint16) {
	e[0x18], e[0x19] = kind<<1, status
	le.PutUint16(e[0x1a:], flags)
}

func (q *cq) name() string { return fmt.Sprintf("CQ %#x", q.n) }

func createCQ(d *Device, in []byte, answer *[entrySize]byte, _ []byte) (err error) {
	pages, ring := le.Uint32(in[0x18:]), le.Uint32(in[0x1c:])
	q := &cq{d: d, handle: le.Uint64(in[0x10:]), dpi: le.Uint32(in[0x20:]), nq: d.nqs[uint16(ring&0xfff)]}
	switch {
	case q.nq == nil:
		return invalid("there is no notification queue %d", ring&0xfff)
	case ring>>12 != 0:
		return invalid("the first completion has index %d", ring>>12)
	}
	if q.completions, err = d.newWorkQueue(le.Uint64(in[0x28:]), int(pages&3), uint8(pages>>2&7), le.Uint32(in[0x24:]), cqeSize, maxCQE+1, 0); err != nil {
		return err
	}
	var ok bool
	if q.n, ok = number(d, d.cqs, "CQ", 1, maxCQ); !ok {
		return refuse(channelNoResource, "there are %d CQs", len(d.cqs))
	}
	d.cqs[q.n] = q
	q.nq.users++
	le.PutUint32(answer[4:], q.n)
	return nil
}

// cq returns the CQ with a number.
func (d *Device) cq(n uint32) (*cq, error) {
	q := d.cqs[n]
	if q == nil {
		return nil, invalid("there is no CQ %#x", n)
	}
	return q, nil
}

func destroyCQ(d *Device, in []byte, answer *[entrySize]byte, _ []byte) error {
	q, err := d.cq(le.Uint32(in[0x10:]))
	switch {
	case err != nil:
		return err
	case q.users > 0:
		return invalid("%s has %d QPs", q.name(), q.users)
	}
	q.nq.users--
	delete(d.cqs, q.n)
	le.PutUint32(answer[4:], q.n)
	// bnxt_re waits for this number of notifications. It loses notifications of other queues while it waits.
	le.PutUint16(answer[0xc:], q.events)
	return nil
}

// resizeCQ writes a last completion to the old ring, and continues in a new one.
func resizeCQ(d *Device, in []byte, answer *[entrySize]byte, _ []byte) error {
	q, err := d.cq(le.Uint32(in[0x10:]))
	if err != nil {
		return err
	}
	if q.cutoff {
		return invalid("%s: the driver has not left the old ring yet", q.name())
	}
	pages := le.Uint32(in[0x14:])
	ring, err := d.newWorkQueue(le.Uint64(in[0x18:]), int(pages&3), uint8(pages>>2&7), pages>>5&0xff_ffff, cqeSize, maxCQE+1, 0)
	if err != nil {
		return err
	}
	var e cqe
	e.set(completeCutoff, 0, 0)
	q.post(&e, true)
	q.completions, q.cutoff, q.last = ring, true, 0
	le.PutUint32(answer[4:], q.n)
	return nil
}

// post writes a completion, and a notification if the queue is armed for it.
func (q *cq) post(e *cqe, solicited bool) {
	r := &q.completions
	b := r.buffer.At(q.d.mem, r.pi%uint64(r.depth)*cqeSize, cqeSize)
	switch {
	case b == nil || !pci.Aligned(b):
		q.d.violation(q.name(), "the host has removed its memory")
		return
	case r.posted() >= uint64(r.depth):
		q.d.trace("%s has no room for a completion", q.name())
		return
	}
	if r.pi/uint64(r.depth)%2 == 0 {
		e[0x18] |= 1
	}
	copy(b[:0x18], e[:])
	copy(b[0x1c:], e[0x1c:])
	pci.StoreWord(b[0x18:], [4]byte(e[0x18:]))
	r.pi++
	q.d.trace("%s completion %x", q.name(), e[:])
	if solicited || e[0x19] != 0 {
		q.last = r.pi
	} else if q.solicited {
		return
	}
	q.notify()
}

func (q *cq) notify() {
	if q.armed {
		q.events++
		q.nq.notifyCompletions(q.handle, q.disarm(q.d))
	}
}

// ring handles a doorbell. A doorbell that arms the queue causes a notification immediately if
// there are completions after its consumer index.
func (q *cq) ring(kind uint8, index uint32, toggle uint8) {
	r := &q.completions
	if kind == doorbellCQArmEna {
		return // the device does not wait for it
	}
	if kind == doorbellCutoffAck {
		if !q.cutoff {
			q.d.violation(q.name(), "a doorbell for the end of a ring that it has left")
		}
		q.cutoff = false
		return
	}
	if q.cutoff {
		return // the index refers to the old ring
	}
	ci := r.advance(r.ci, index)
	if index >= r.depth || ci > r.pi {
		q.d.violation(q.name(), "a doorbell with consumer index %#x of %#x, which is not between %#x and %#x", index, r.depth, r.ci, r.pi)
		return
	}
	r.ci = ci
	switch {
	case kind == doorbellCQArmAll && q.arm(q.d, toggle):
		if q.solicited = false; r.pi != r.ci {
			q.notify()
		}
	case kind == doorbellCQArmSE:
		was := q.armed
		if !q.arm(q.d, toggle) {
			return
		}
		// A request for any completion remains.
		q.solicited = !was || q.solicited
		if q.last > r.ci || !q.solicited && r.pi != r.ci {
			q.notify()
		}
	}
}
