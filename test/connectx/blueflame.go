// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"time"

	"purerdma/test/connectx/prm"
)

// blueflame is a doorbell register during the copy of a request to it. A virtual machine
// delivers the copy as stores of 8 bytes.
type blueflame struct {
	line [sendSize]byte
	n    int // received bytes
	held *qp // QP whose request waits for the rest of the copy
	timer
}

// holdTime is the time that a request waits for the rest of its copy.
const holdTime = time.Millisecond

// store handles a store that is a part of a copy, or an 8-byte doorbell.
//
// The request is in memory as well, and is executed at the first store. NOPs are the exception.
// A driver tests copies by posting NOPs whose copies differ from their memory. A NOP therefore
// waits for its copy, which is then executed.
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
		b.n = 0 // not the rest of the previous copy
		return
	}
	b.n += copy(b.line[at:], p)
	if q := b.held; q != nil && b.n == prm.WQEBB {
		q.copied, q.copiedIndex = b.line[:prm.WQEBB], uint16(prm.Ctrl.Index.Get(b.line[:]))
		b.release()
		q.copied = nil
	}
}

// release executes a held request.
func (b *blueflame) release() {
	b.Stop()
	if q := b.held; q != nil {
		b.held = nil
		q.run()
	}
}
