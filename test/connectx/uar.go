// SPDX-License-Identifier: Apache-2.0

package connectx

import "purerdma/test/connectx/prm"

// A UAR is a page of doorbell registers. Its number is that of its page in BAR 0,
// the first of which are not for registers.
const (
	firstUAR = 8
	endUAR   = BARSize / PageSize
)

// BARSize is the size of BAR 0, and PageSize that of a UAR in it.
const (
	BARSize  = 32 << 20
	PageSize = 4096
)

// uar is a page of doorbell registers that has been allocated.
type uar struct {
	n    uint32
	send [(PageSize - RegisterSend) / sendSize]blueflame
	mem  []byte // if it is memory of this process
	qps  []*qp  // that ring here
	sqs  []*sq  // and these
	cqs  []*cq  // that are armed here
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
		// Linux gives back the page of a process that has ended before the CQs on
		// it, and no card minds.
		u.stop()
		d.mapped = without(d.mapped, u)
		return nil
	}},
}

// forget carries out no request of a QP any more.
func (u *uar) forget(q *qp) {
	u.qps = without(u.qps, q)
	for i := range u.send {
		if b := &u.send[i]; b.held == q {
			b.held = nil
			b.timer.stop()
		}
	}
}

// stop ends what would go on by itself.
func (u *uar) stop() {
	for i := range u.send {
		u.send[i].held = nil
		u.send[i].timer.stop()
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
