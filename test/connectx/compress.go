// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// A queue with compression writes one CQE, the title, for completions of one work queue with
// mostly equal fields. The following slots contain arrays of the differences (PRM, "Compressed
// CQE"). The device compresses the completions that it creates before it releases the fabric's
// lock, so that no completion is delayed for a driver.

// maxCompressed is the maximum number of completions for one title.
const maxCompressed = 64

// checkCompression rejects formats that the device does not compress.
func checkCompression(c []byte) error {
	switch {
	case !prm.CQC.Compression.Is(c):
		return nil
	case prm.CQC.CQESize.Get(c) != prm.CQESize64:
		return refuse(prm.StatusBadParam, "only completions of 64 bytes are compressed")
	case prm.CQC.MiniFormat.Get(c) > prm.MiniChecksum || prm.CQC.CompressionLayout.Get(c) != 0:
		return refuse(prm.StatusBadParam, "completions are not compressed in format %d, layout %d",
			prm.CQC.MiniFormat.Get(c), prm.CQC.CompressionLayout.Get(c))
	}
	return nil
}

// holder is a queue with unwritten completions.
type holder struct {
	d *Device
	q *cq
}

// flushHeld writes the held completions.
func (f *Fabric) flushHeld() {
	for _, h := range f.holders {
		h.q.flush(h.d)
	}
	f.holders = f.holders[:0]
}

// completeAlike is like completeWide for a completion that may share a title with its
// neighbors. It must be a success whose position in its queue follows from the order.
func (q *cq) completeAlike(d *Device, e *completion, wide []byte) bool {
	if !prm.CQC.Compression.Is(q.context[:]) || q.size != prm.CQELen || prm.CQE.Format.Is(e[:]) {
		return q.completeWide(d, e, wide)
	}
	if n := len(q.held); n == maxCompressed || n > 0 && !q.held[n-1].precedes(e) {
		q.flush(d)
	}
	ci, ok := q.consumer(d)
	if room := 1<<q.logSize - int((q.pi-ci)&prm.ConsumerIndexMask); !ok || q.status != prm.CQStatusOK || len(q.held) >= room {
		return q.completeWide(d, e, wide) // it fails unless the driver allows overruns
	}
	if len(q.held) == 0 {
		d.fabric.holders = append(d.fabric.holders, holder{d, q})
	}
	q.held = append(q.held, *e)
	return true
}

// precedes reports whether the next completion can share the title of this one.
func (e *completion) precedes(next *completion) bool {
	a, b := *e, *next
	if prm.CQE.Opcode.Get(a[:]) != prm.CQEReq && uint16(prm.CQE.WQECounter.Get(b[:])) != uint16(prm.CQE.WQECounter.Get(a[:]))+1 {
		return false // receives are counted relative to the title
	}
	for _, f := range []*prm.Field{&prm.CQE.ByteCount, &prm.CQE.Timestamp, &prm.CQE.WQECounter, &prm.CQE.SendOpcode} {
		f.Set(a[:], 0)
		f.Set(b[:], 0)
	}
	return a == b
}

// flush writes the held completions.
func (q *cq) flush(d *Device) {
	held := q.held
	q.held = held[:0]
	switch len(held) {
	case 0:
		return
	case 1:
		q.completeWide(d, &held[0], nil)
		return
	}
	for i := 0; i < len(held); i += prm.MiniCQEs {
		array := q.slotAt(d, q.pi+uint32(max(1, i))) // the first array follows the title
		if array == nil {
			q.fail(d, prm.CQStatusWriteErr, prm.CQSyndromeAccess)
			return
		}
		for k, e := range held[i:min(i+prm.MiniCQEs, len(held))] {
			e.mini(array[k*prm.MiniCQELen:][:prm.MiniCQELen])
		}
	}
	title := held[0]
	prm.CQE.Format.Set(title[:], prm.CQECompressed)
	prm.CQE.ByteCount.Set(title[:], uint64(len(held)))
	if !q.put(d, &title) {
		return
	}
	q.pi += uint32(len(held) - 1)
	q.announce(d, prm.CQE.Solicited.Is(title[:]))
}

// mini writes the array entry of a completion. RoCE's receives have no hash, and no checksum
// that a driver uses.
func (e *completion) mini(b []byte) {
	clear(b)
	if prm.CQE.Opcode.Get(e[:]) == prm.CQEReq {
		prm.MiniCQE.WQECounter.Set(b, prm.CQE.WQECounter.Get(e[:]))
		prm.MiniCQE.SendOpcode.Set(b, prm.CQE.SendOpcode.Get(e[:]))
	}
	prm.MiniCQE.ByteCount.Set(b, prm.CQE.ByteCount.Get(e[:]))
}
