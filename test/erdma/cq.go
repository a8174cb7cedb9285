// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"fmt"

	"purerdma/test/pci"
)

// cq is a completion queue.
type cq struct {
	d      *Device
	n      uint32
	depth  uint32 // a power of two
	buffer pci.Pages
	record uint64 // address of the doorbell record, 0 for the command queue
	eq     *eq
	group  uint32 // group of the page of its doorbell, 0 for pages that all programs share

	pi        uint32 // 24 bits
	armed     bool
	solicited bool   // whether only solicited completions cause an event.
	last      uint32 // index after the last solicited completion.
	users     int    // QPs
}

// indexMask has the bits of the index of a completion queue.
const indexMask = 1<<24 - 1

func (q *cq) name() string { return fmt.Sprintf("CQ %#x", q.n) }

func createCQ(d *Device, in []byte) (answer, error) {
	cfg0, cfg1 := uint64(le.Uint32(in[8:])), uint64(le.Uint32(in[20:]))
	addr := uint64(le.Uint32(in[12:])) | uint64(le.Uint32(in[16:]))<<32
	q := &cq{d: d, n: uint32(bits(cfg0, 19, 0)), record: le.Uint64(in[24:])}
	log, count := bits(cfg0, 31, 24), bits(cfg1, 31, 16)
	q.buffer = pci.Pages{Shift: uint(bits(cfg0, 23, 20)) + 12, First: uint64(le.Uint32(in[32:]))}
	if bits(cfg1, 15, 15) == 0 || count == 1 {
		// Linux 6.1 has a table of one page, but passes the address of the page.
		q.buffer.Entries = []uint64{addr}
	} else {
		q.buffer.Table, q.buffer.Levels, q.buffer.N = addr, 1, count
	}
	if bits(cfg1, 11, 11) != 0 {
		q.group = group(uint32(le.Uint16(in[36:])))
	}
	q.eq = d.eqs[uint32(bits(cfg1, 9, 0))]
	switch {
	case q.n == 0 || q.n >= maxCQ || d.cqs[q.n] != nil:
		return answer{}, fmt.Errorf("CQ %#x exists, or is not between 1 and %#x", q.n, maxCQ-1)
	case q.eq == nil:
		return answer{}, fmt.Errorf("there is no EQ %d", bits(cfg1, 9, 0))
	case log > logMaxCQE:
		return answer{}, fmt.Errorf("2^%d entries, want at most 2^%d", log, logMaxCQE)
	case q.buffer.Levels == 0 && count != 1:
		return answer{}, fmt.Errorf("%d pages without a table, want 1", count)
	case bits(cfg1, 11, 11) != 0 && !d.dbs[q.group]:
		return answer{}, fmt.Errorf("doorbell page %#x is not allocated", le.Uint16(in[36:]))
	case !d.isRecord(q.record):
		return answer{}, fmt.Errorf("the host has no memory for a doorbell record at %#x", q.record)
	}
	q.depth = 1 << log
	if err := q.buffer.Check(uint64(q.depth)*cqeSize, maxPages); err != nil {
		return answer{}, err
	}
	d.cqs[q.n] = q
	q.eq.users++
	return answer{}, nil
}

func destroyCQ(d *Device, in []byte) (answer, error) {
	n := le.Uint32(in[8:])
	q := d.cqs[n]
	switch {
	case q == nil:
		return answer{}, fmt.Errorf("there is no CQ %#x", n)
	case q.users > 0:
		return answer{}, fmt.Errorf("CQ %#x has %d QPs", n, q.users)
	}
	q.eq.users--
	delete(d.cqs, n)
	return answer{}, nil
}

// isRecord reports whether the host has memory for a doorbell record.
func (d *Device) isRecord(addr uint64) bool {
	b := d.mem.Bytes(addr, dbRecordSize)
	return b != nil && addr%dbRecordSize == 0 && pci.Aligned(b)
}

// completion is an entry of a completion queue.
type completion struct {
	queue  uint8
	opcode uint8
	status status
	index  uint32 // index of the request
	answer bool   // whether the following fields contain the answer of a command.
	qpn    uint32
	imm    [4]byte
	size   uint32
	high   uint32
}

// setAnswer sets the two words of a command's answer.
func (e *completion) setAnswer(a answer) {
	e.queue, e.answer = queueCommand, true
	e.qpn = uint32(a[0])
	be.PutUint32(e.imm[:], uint32(a[0]>>32))
	e.size, e.high = uint32(a[1]), uint32(a[1]>>32)
}

// post writes a completion, and an event if the queue is armed for it.
func (q *cq) post(e completion, solicited bool) {
	b := q.buffer.At(q.d.mem, uint64(q.pi&(q.depth-1))*cqeSize, cqeSize)
	if b == nil || !pci.Aligned(b) {
		q.d.violation(q.name(), "the host has removed its memory")
		return
	}
	hdr := uint32(e.opcode)<<16 | uint32(e.queue)<<8 | uint32(e.status)
	if q.pi&q.depth == 0 {
		hdr |= 1 << 31
	}
	clear(b[4:])
	be.PutUint32(b[4:], e.index)
	be.PutUint32(b[8:], e.qpn)
	copy(b[12:16], e.imm[:])
	be.PutUint32(b[16:], e.size)
	be.PutUint32(b[20:], e.high)
	var w [4]byte
	be.PutUint32(w[:], hdr)
	pci.StoreWord(b, w)
	q.pi = (q.pi + 1) & indexMask
	if !e.answer {
		q.d.trace("%s completion %#x: QP %#x queue %d opcode %d status %d index %#x size %d", q.name(), q.pi, e.qpn, e.queue, e.opcode, e.status, e.index, e.size)
	}
	if solicited || e.status != statusOK {
		q.last = q.pi
	} else if q.solicited {
		return
	}
	q.notify()
}

// notify writes an event if the queue is armed.
func (q *cq) notify() {
	if q.armed {
		q.armed = false
		q.eq.postCompletion(q.n, q.pi)
	}
}

// ring handles a doorbell, which arms the queue. There is an event immediately if there are
// completions after the consumer index.
func (q *cq) ring(v uint64) {
	ci := uint32(bits(v, 23, 0))
	waiting := (q.pi - ci) & indexMask
	if waiting > q.depth {
		q.d.violation(q.name(), "a doorbell with consumer index %#x, but the device is at %#x", ci, q.pi)
		return
	}
	if bits(v, 31, 31) == 0 {
		q.d.violation(q.name(), "a doorbell %#x that does not arm it", v)
		return
	}
	// A request for any completion remains if the next one is for solicited completions.
	q.armed, q.solicited = true, bits(v, 30, 30) != 0 && (!q.armed || q.solicited)
	if q.solicited {
		waiting = (q.last - ci) & indexMask
		if waiting > q.depth {
			waiting = 0
		}
	}
	if waiting > 0 {
		q.notify()
	}
}
