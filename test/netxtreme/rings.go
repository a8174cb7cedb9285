// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"fmt"

	"purerdma/test/pci"
)

// rings contains the objects of HWRM. Rings of all types have one number space.
type rings struct {
	nqs          map[uint16]*nq
	completions  map[uint16]*completionRing
	txs          map[uint16]*txRing
	rxs          map[uint16]*rxRing
	vnics        map[uint16]*vnic
	hashContexts map[uint16]bool
	filters      map[uint64]*filter
	statistics   map[uint32]*statistics
	// freed contains the notification queues, the completion rings and the receive rings of Ethernet that the driver has
	// freed. bnxt_hwrm_ring_free frees them before bnxt_disable_napi, so a poll on another processor may still ring their doorbells.
	freed map[uint16]bool
	last  uint32 // number of the last object
}

func newRings() rings {
	return rings{
		nqs: make(map[uint16]*nq), completions: make(map[uint16]*completionRing), txs: make(map[uint16]*txRing),
		rxs: make(map[uint16]*rxRing), vnics: make(map[uint16]*vnic), hashContexts: make(map[uint16]bool),
		filters: make(map[uint64]*filter), statistics: make(map[uint32]*statistics), freed: make(map[uint16]bool),
	}
}

// number returns a new number for an object that is not used. Commands of RCFW have 12 bits for
// the number of a notification queue.
func (r *rings) number(used func(n uint16) bool) uint16 {
	for {
		if r.last = (r.last + 1) & 0xfff; r.last != 0 && !used(uint16(r.last)) {
			return uint16(r.last)
		}
	}
}

// ringNumber returns a new number for a ring.
func (r *rings) ringNumber() uint16 {
	n := r.number(func(n uint16) bool {
		return r.nqs[n] != nil || r.completions[n] != nil || r.txs[n] != nil || r.rxs[n] != nil
	})
	delete(r.freed, n)
	return n
}

// queue is a ring of entries in the host's memory. Its indices count all entries.
type queue struct {
	d      *Device
	n      uint16
	kind   string
	buffer pci.Pages
	depth  uint32 // a power of two
	pi, ci uint32
}

func (q *queue) name() string { return fmt.Sprintf("%s %#x", q.kind, q.n) }

// entry returns the entry with an index, or nil if it is not mapped.
func (q *queue) entry(index uint32) []byte {
	b := q.buffer.At(q.d.mem, uint64(index&(q.depth-1))*entrySize, entrySize)
	if b == nil || !pci.Aligned(b) {
		return nil
	}
	return b
}

// advanced returns the counter that is next to old and has the masked index of a doorbell.
func (q *queue) advanced(old, index uint32) uint32 { return old + (index-old)&(q.depth-1) }

// post writes an entry, and the bit that makes it valid at last. It returns false without room or
// memory.
func (q *queue) post(e [entrySize]byte) bool {
	b := q.entry(q.pi)
	switch {
	case b == nil:
		q.d.violation(q.name(), "the host has removed its memory")
		return false
	case q.pi-q.ci == q.depth:
		q.d.violation(q.name(), "it has no room for an entry")
		return false
	}
	if e[8] &^= 1; q.pi&q.depth == 0 {
		e[8] |= 1
	}
	copy(b[:8], e[:8])
	copy(b[12:], e[12:])
	pci.StoreWord(b[8:], [4]byte(e[8:12]))
	q.pi++
	return true
}

// consume handles the consumer index of a doorbell. It returns false for a wrong index.
func (q *queue) consume(index uint32) bool {
	if index >= q.depth {
		q.d.violation(q.name(), "a doorbell with index %#x of %#x entries", index, q.depth)
		return false
	}
	ci := q.advanced(q.ci, index)
	if ci-q.ci > q.pi-q.ci {
		q.d.violation(q.name(), "a doorbell with consumer index %#x, which is not between %#x and %#x", index, q.ci&(q.depth-1), q.pi&(q.depth-1))
		return false
	}
	q.ci = ci
	return true
}

// maxRingPages bounds the pages of a ring.
const maxRingPages = 1 << 12

// Types of rings.
const (
	ringCompletion = 0
	ringTx         = 1
	ringRx         = 2
	ringAggregate  = 4
	ringNotify     = 5
)

// newQueue returns the queue that RING_ALLOC describes.
func newQueue(d *Device, kind string, in []byte) (q queue, err error) {
	q = queue{d: d, kind: kind, depth: le.Uint32(in[0x28:])}
	addr, shift, levels := le.Uint64(in[0x18:]), uint(in[0x24]), int(in[0x25])
	q.buffer = pci.Pages{Entries: []uint64{addr &^ pageFlags}, Shift: 12}
	if levels > 0 {
		q.buffer = pci.Pages{
			Table: addr &^ pageFlags, Levels: levels, LogNode: 12, Shift: shift, Flags: pageFlags,
			N: (uint64(q.depth)*entrySize + 1<<(shift&63) - 1) >> (shift & 63),
		}
	}
	switch {
	case q.depth < 2 || q.depth&(q.depth-1) != 0 || q.depth > maxRingPages*pageSize/entrySize:
		return q, refuse(hwrmInvalid, "%d entries, want a power of two", q.depth)
	case levels > 2 || le.Uint32(in[0x20:]) != 0:
		return q, refuse(hwrmInvalid, "tables of %d levels and first byte %#x", levels, le.Uint32(in[0x20:]))
	}
	if err := q.buffer.Check(uint64(q.depth)*entrySize, maxRingPages); err != nil {
		return q, refuse(hwrmInvalid, "%v", err)
	}
	q.n = d.ringNumber()
	return q, nil
}

// Bits of the enables of RING_ALLOC.
const (
	validRxRing = 0x40
	validNQ     = 0x80
)

func ringAlloc(d *Device, in, out []byte) error {
	enables := le.Uint32(in[0x10:])
	kinds := map[uint8]string{ringCompletion: "completion ring", ringTx: "transmit ring", ringRx: "receive ring", ringAggregate: "aggregation ring", ringNotify: "notification queue"}
	kind, ok := kinds[in[0x14]]
	if !ok {
		return refuse(hwrmInvalid, "there are no rings of type %d", in[0x14])
	}
	q, err := newQueue(d, kind, in)
	if err != nil {
		return err
	}
	switch in[0x14] {
	case ringNotify:
		vector := int(le.Uint16(in[0x2c:]))
		if vector >= vectors {
			return refuse(hwrmInvalid, "there is no vector %d", vector)
		}
		d.nqs[q.n] = &nq{queue: q, vector: vector}
	case ringCompletion:
		n := d.nqs[le.Uint16(in[0x36:])]
		if n == nil || enables&validNQ == 0 {
			return refuse(hwrmInvalid, "there is no notification queue %d", le.Uint16(in[0x36:]))
		}
		d.completions[q.n] = &completionRing{queue: q, nq: n, handle: le.Uint64(in[0x50:])}
		n.users++
		n.ethernet = true
	case ringTx:
		c := d.completions[le.Uint16(in[0x2e:])]
		if c == nil {
			return refuse(hwrmInvalid, "there is no completion ring %d", le.Uint16(in[0x2e:]))
		}
		s := d.statistics[le.Uint32(in[0x40:])]
		d.txs[q.n] = &txRing{queue: q, completions: c, statistics: s}
		c.users++
	default:
		r := &rxRing{queue: q, size: int(le.Uint16(in[0x32:])), statistics: d.statistics[le.Uint32(in[0x40:])]}
		if le.Uint16(in[0x16:]) != 0 {
			return refuse(hwrmInvalidFlags, "flags %#x of a receive ring", le.Uint16(in[0x16:]))
		}
		if in[0x14] == ringAggregate {
			first := d.rxs[le.Uint16(in[0x34:])]
			if first == nil || enables&validRxRing == 0 {
				return refuse(hwrmInvalid, "there is no receive ring %d", le.Uint16(in[0x34:]))
			}
			first.more = r
		}
		d.rxs[q.n] = r
	}
	le.PutUint16(out[8:], q.n)
	le.PutUint16(out[10:], le.Uint16(in[0x2c:]))
	return nil
}

func ringFree(d *Device, in, _ []byte) error {
	n := le.Uint16(in[0x12:])
	missing := refuse(hwrmInvalid, "there is no ring %d of type %d", n, in[0x10])
	switch in[0x10] {
	case ringNotify:
		q := d.nqs[n]
		if q == nil {
			return missing
		}
		if q.users > 0 {
			return refuse(hwrmInvalid, "%s has %d users", q.name(), q.users)
		}
		delete(d.nqs, n)
		d.freed[n] = q.ethernet
	case ringCompletion:
		q := d.completions[n]
		if q == nil {
			return missing
		}
		if q.users > 0 {
			return refuse(hwrmInvalid, "%s has %d users", q.name(), q.users)
		}
		q.nq.users--
		delete(d.completions, n)
		d.freed[n] = true
	case ringTx:
		q := d.txs[n]
		if q == nil {
			return missing
		}
		q.completions.users--
		delete(d.txs, n)
	default:
		q := d.rxs[n]
		if q == nil {
			return missing
		}
		for _, r := range d.rxs {
			if r.more == q {
				r.more = nil
			}
		}
		delete(d.rxs, n)
		d.freed[n] = true
	}
	return nil
}
