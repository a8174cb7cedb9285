// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"time"

	"purerdma/test/connectx/prm"
)

// Defects are faults of a broken card or driver, which a program that checks cards must find. The zero
// Defects are none.
type Defects struct {
	// LostDoorbells loses every n-th doorbell of a QP, as if its store had not left the processor. 0 loses none.
	LostDoorbells int
	// IgnoredFence executes a fenced request before a READ in front of it.
	IgnoredFence bool
	// SwappedCounters exchanges the counters in the completions of each two receives of a QP.
	SwappedCounters bool
	// LateCompletions writes every n-th completion of a CQ late, after its event. 0 means none.
	LateCompletions int
	// ShortScatter leaves out the last byte of received messages that are not in the completion.
	ShortScatter bool
	// KeptCounters continues the counters of receives in completions after a reset of the QP, in place of beginning with 0.
	KeptCounters bool
	// UnknownOpcodes executes requests with unknown opcodes as NOPs.
	UnknownOpcodes bool
	// CommonStreams fails a DCI when one of its streams fails.
	CommonStreams bool
	// TornAtomics executes an atomic in two steps, so that a processor can change the memory between them.
	TornAtomics bool
}

// defects contains the state of a device's defects.
type defects struct {
	Defects
	rung int // doorbells
}

// SetDefects sets the defects of the device.
func (d *Device) SetDefects(x Defects) {
	d.fabric.lock()
	defer d.fabric.unlock()
	d.defects.Defects = x
}

// losesDoorbell reports whether this doorbell is lost.
func (d *Device) losesDoorbell() bool {
	if d.defects.LostDoorbells == 0 {
		return false
	}
	d.defects.rung++
	return d.defects.rung%d.defects.LostDoorbells == 0
}

// overtaken takes the request after the last one, if a READ is about to let it overtake.
func (q *qp) overtaken(posted uint16) bool {
	if !q.d.defects.IgnoredFence || !q.flights[len(q.flights)-1].response || q.next == posted {
		return false
	}
	w := q.fetch(q.next)
	return w != nil && prm.Ctrl.Fence.Get(w) >= prm.FenceRead && q.take(posted-q.next)
}

// tornTime is the time between the two steps of an atomic.
const tornTime = time.Millisecond

// lateTime is the time after which a delayed completion is written.
const lateTime = 20 * time.Millisecond

// late holds completions that are written late.
type late struct {
	timer   timer
	entries []lateEntry
	count   int // completions of the CQ
}

type lateEntry struct {
	entry     completion
	wide      []byte
	solicited bool
}

// delay keeps a completion, and sends its event early. It returns false if the completion must be written now.
func (q *cq) delay(d *Device, e *completion, wide []byte, solicited bool) bool {
	if len(q.late.entries) == 0 {
		if d.defects.LateCompletions == 0 {
			return false
		}
		if q.late.count++; q.late.count%d.defects.LateCompletions != 0 {
			return false
		}
		q.announce(d, solicited)
		q.late.timer.start(d.fabric, lateTime, func() { q.release(d) })
	}
	q.late.entries = append(q.late.entries, lateEntry{*e, append([]byte(nil), wide...), solicited})
	return true
}

// release writes the late completions. The first one has already had its event.
func (q *cq) release(d *Device) {
	entries := q.late.entries
	q.late.entries = nil
	for i := range entries {
		e := &entries[i]
		if q.write(d, &e.entry, e.wide) && i > 0 {
			q.announce(d, e.solicited)
		}
	}
}

// scattered limits the memory of a message of n bytes to the bytes that the device writes.
func (d *Device) scattered(dst [][]byte, n int) [][]byte {
	if !d.defects.ShortScatter || n == 0 {
		return dst
	}
	left := n - 1
	for i := range dst {
		dst[i] = dst[i][:min(len(dst[i]), left)]
		left -= len(dst[i])
	}
	return dst
}
