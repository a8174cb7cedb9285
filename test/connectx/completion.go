// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"purerdma/test/connectx/prm"
	"purerdma/test/pci"
)

// completion is a CQE, or the second half of a CQE of 128 bytes.
type completion [64]byte

// vendorFlush is the vendor syndrome of flushed requests.
const vendorFlush = 0xf9

// complete adds a completion to the queue and sends the requested event. It returns false if
// the queue has failed.
func (q *cq) complete(d *Device, e *completion) bool { return q.completeWide(d, e, nil) }

// completeWide is like complete, with the first half of a CQE of 128 bytes.
func (q *cq) completeWide(d *Device, e *completion, wide []byte) bool {
	q.flush(d)
	solicited := prm.CQE.Solicited.Is(e[:])
	if op := prm.CQE.Opcode.Get(e[:]); op == prm.CQEReqErr || op == prm.CQERespErr {
		solicited = true
	}
	if q.delay(d, e, wide, solicited) {
		return true
	}
	if !q.write(d, e, wide) {
		return false
	}
	q.announce(d, solicited)
	return true
}

// write writes a completion with its first half, which may be nil.
func (q *cq) write(d *Device, e *completion, wide []byte) bool {
	if len(wide) > 0 {
		if b := q.slot(d); b != nil {
			copy(b, wide)
		}
	}
	return q.put(d, e)
}

// announce sends the requested event for new completions.
func (q *cq) announce(d *Device, solicited bool) {
	if solicited {
		q.solicited = q.pi & prm.ConsumerIndexMask
	}
	if q.state == prm.CQStateArmed || q.state == prm.CQStateArmedSolicited && solicited {
		q.notify(d)
	}
}

// slot returns the memory of the next completion, or nil if it is not mapped.
func (q *cq) slot(d *Device) []byte { return q.slotAt(d, q.pi) }

// slotAt returns the memory of the completion with an index.
func (q *cq) slotAt(d *Device, index uint32) []byte {
	return q.buffer.at(d.mem, uint64(index&(1<<q.logSize-1))*uint64(q.size), q.size)
}

// put writes a completion. The queue fails if it is full or its memory is not mapped.
func (q *cq) put(d *Device, e *completion) bool {
	if q.status != prm.CQStatusOK {
		return false
	}
	ci, ok := q.consumer(d)
	b := q.slot(d)
	if b == nil || !ok {
		q.fail(d, prm.CQStatusWriteErr, prm.CQSyndromeAccess)
		return false
	}
	if (q.pi-ci)&prm.ConsumerIndexMask >= 1<<q.logSize && !prm.CQC.OverrunIgnore.Is(q.context[:]) {
		q.fail(d, prm.CQStatusOverflow, prm.CQSyndromeOverrun)
		return false
	}
	writeEntry(b[q.size-prm.CQELen:], e, q.pi, q.logSize)
	if d.cfg.Trace != nil {
		d.cfg.Trace(&CompletionRecord{Device: d.cfg.Name, CQ: q.n, Index: q.pi, CQE: *e})
	}
	q.pi++
	return true
}

// writeEntry writes a completion to its slot, the owner bit last.
func writeEntry(last []byte, e *completion, index uint32, logSize uint) {
	prm.CQE.Owner.Set(e[:], uint64(index>>logSize&1))
	copy(last[:60], e[:])
	pci.StoreWord(last[60:], [4]byte(e[60:]))
}

// fail moves the queue to the error state and notifies the driver.
func (q *cq) fail(d *Device, status uint64, syndrome uint64) {
	q.status = status
	d.event(prm.EventCQError, 0, func(data []byte) {
		prm.EventErrorCQN.Set(data, uint64(q.n))
		prm.EventCQSyndrome.Set(data, syndrome)
	})
}
