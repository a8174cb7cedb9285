// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// A UAR is a page of doorbell registers. Its number is the number of its page in BAR 0. The
// first pages are not for registers.
const (
	firstUAR = 8
	endUAR   = BARSize / PageSize
)

// BARSize is the size of BAR 0. PageSize is the size of a UAR in it.
const (
	BARSize  = 32 << 20
	PageSize = 4096
)

// uar is an allocated page of doorbell registers.
type uar struct {
	n    uint32
	send [(PageSize - RegisterSend) / sendSize]blueflame
	mem  []byte // set if it is memory of this process
	qps  []*qp  // QPs with a doorbell in this page
	sqs  []*sq  // SQs with a doorbell in this page
	cqs  []*cq  // CQs that are armed in this page
}

var uarCommands = map[uint16]command{
	prm.OpAllocUAR: {"ALLOC_UAR", 16, 16, func(d *Device, in, out []byte) (err error) {
		u := new(uar)
		if u.n, err = d.uars.add(u); err == nil {
			prm.ObjectOut.Number.Set(out, uint64(u.n))
		}
		return err
	}},
	prm.OpDeallocUAR: {"DEALLOC_UAR", 16, 16, func(d *Device, in, out []byte) error {
		u, err := d.uars.remove(uint32(prm.ObjectIn.Number.Get(in)))
		if err != nil {
			return err
		}
		// When a process ends, Linux frees its page before the CQs on it, which cards tolerate.
		u.stop()
		d.mapped = without(d.mapped, u)
		return nil
	}},
}

// forget executes no further requests of a QP.
func (u *uar) forget(q *qp) {
	u.qps = without(u.qps, q)
	for i := range u.send {
		if b := &u.send[i]; b.held == q {
			b.held = nil
			b.timer.Stop()
		}
	}
}

// stop stops the timers.
func (u *uar) stop() {
	for i := range u.send {
		u.send[i].held = nil
		u.send[i].timer.Stop()
	}
}

// without returns a list without one of its elements.
func without[T comparable](list []T, one T) []T {
	for i, o := range list {
		if o == one {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}
