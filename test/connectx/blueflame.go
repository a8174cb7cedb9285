// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"time"

	"purerdma/test/connectx/prm"
)

// blueflame is a doorbell register while a request is being copied to it by stores of
// 8 bytes, as a virtual machine hands them out.
type blueflame struct {
	line [sendSize]byte
	n    int // bytes that have come
	held *qp // whose request waits for the rest of the copy
	timer
}

// holdTime is how long a request waits for the rest of its copy.
const holdTime = time.Millisecond

// store takes a store that is a part of a copy, or an 8-byte doorbell.
//
// The request is in memory, too, and is carried out at the first store. But a driver
// finds out whether copies work by posting NOPs whose copies differ from what is in
// memory: a NOP waits for its copy, and is carried out as that says.
func (b *blueflame) store(d *Device, u *uar, at int, p []byte) {
	if at == 0 {
		b.release()
		b.n = copy(b.line[:], p)
		q, ok := d.queues.objects[uint32(prm.Ctrl.QPN.Get(p))].(*qp)
		if !ok || len(p) > 8 || prm.Ctrl.Opcode.Get(p) != prm.WQENop || q.uar != u {
			d.ringQueue(u, p)
			return
		}
		q.hear(uint16(prm.Ctrl.Index.Get(p)))
		q.told(p)
		b.held = q
		b.start(d.fabric, holdTime, b.release)
		return
	}
	if at != b.n || at+len(p) > len(b.line) {
		b.n = 0 // not the rest of what came before
		return
	}
	b.n += copy(b.line[at:], p)
	if q := b.held; q != nil && b.n == prm.WQEBB {
		q.copied, q.copiedIndex = b.line[:prm.WQEBB], uint16(prm.Ctrl.Index.Get(b.line[:]))
		b.release()
		q.copied = nil
	}
}

// release carries out a request that was held.
func (b *blueflame) release() {
	b.stop()
	if q := b.held; q != nil {
		b.held = nil
		q.run()
	}
}
