// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"purerdma/test/connectx/prm"
)

// nothing stands in a register that has been looked at. No driver stores it: the
// operation of a doorbell has a zero in its first byte, and the number in that of a
// CQ has 24 bits.
const nothing = ^uint64(0)

// MapUAR makes an allocated register page memory of this process, where no store can
// be seen as it happens: the device looks at it when [Device.Poll] is called. mem is
// a page, aligned as such; the device stores to it. It returns false if there is no
// such page.
//
// A register keeps the last store only. So a doorbell is one for all queues of its
// page, and tells no more than that there may be requests.
func (d *Device) MapUAR(page uint32, mem []byte) bool {
	d.fabric.lock()
	defer d.fabric.unlock()
	u := d.uars.objects[page]
	if u == nil || len(mem) < PageSize || uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%8 != 0 {
		return false
	}
	u.mem = mem
	for _, off := range doorbells {
		atomic.StoreUint64(u.register(off), nothing)
	}
	d.mapped = append(d.mapped, u)
	return true
}

// UnmapUAR ends MapUAR: the device looks at the memory no more.
func (d *Device) UnmapUAR(page uint32) {
	d.fabric.lock()
	defer d.fabric.unlock()
	if u := d.uars.objects[page]; u != nil {
		d.mapped = without(d.mapped, u)
		u.mem = nil
	}
}

// doorbells are the places of a page that Poll looks at.
var doorbells = func() (all []int) {
	all = append(all, RegisterCQ)
	for off := RegisterSend; off < PageSize; off += sendSize {
		all = append(all, off)
	}
	return all
}()

// register is the place of 8 bytes in the memory of a page.
func (u *uar) register(off int) *uint64 { return (*uint64)(unsafe.Pointer(&u.mem[off])) }

// taken returns what was stored to a register since it was looked at last.
func (u *uar) taken(off int) (v [8]byte, ok bool) {
	r := u.register(off)
	if atomic.LoadUint64(r) == nothing {
		return v, false
	}
	binary.NativeEndian.PutUint64(v[:], atomic.SwapUint64(r, nothing))
	return v, true
}

// Poll looks at all pages that are memory, and carries out what was posted. It
// returns whether there was anything.
func (d *Device) Poll() bool {
	d.fabric.lock()
	defer d.fabric.unlock()
	some := false
	for _, u := range d.mapped {
		for _, off := range doorbells {
			var ok bool
			if d.stored, ok = u.taken(off); ok {
				some = true
				u.rung(d, off, d.stored[:])
			}
		}
	}
	return some
}

// rung takes what was stored last to a register.
func (u *uar) rung(d *Device, off int, v []byte) {
	d.traceDoorbell(u.n, off, v)
	if d.quirks.ExactDoorbells {
		u.rungExactly(d, off, v)
		return
	}
	if off == RegisterCQ {
		n := binary.BigEndian.Uint32(v[4:])
		// One that is not there may have been when it was armed.
		if q := d.cqs.objects[n]; q != nil && q.uar != u {
			d.violation(u.name(), "CQ %#x is armed, which is not of this page", n)
		}
		for _, q := range u.cqs {
			q.rearm(d)
		}
		return
	}
	n := uint32(prm.Ctrl.QPN.Get(v))
	if q, ok := d.queues.objects[n].(*qp); !ok {
		// It may have been there when this was stored.
	} else if q.uar != u {
		d.violation(u.name(), "a doorbell of QP %#x, which is not of this page", n)
	} else if d.strict() && q.waits(uint16(prm.Ctrl.Index.Get(v))) {
		q.checkPolled(v)
	}
	for _, q := range u.qps {
		q.run()
	}
	for _, s := range u.sqs {
		if s.state != prm.QueueReset {
			s.run(d)
		}
	}
}

// notArmed stands in the arm word of a queue's doorbell record between two times
// that it is armed, if the register is memory. A card would not store to it; but
// here it is the only way to see that a queue was armed when the register says that
// another was. No driver stores it.
const notArmed = ^uint32(0)

// rearm looks for whether a queue was armed: by the store that was seen, or by one
// that it replaced.
func (q *cq) rearm(d *Device) {
	if r := d.mem.Bytes(q.record, 8); r != nil && aligned(r) {
		if w := swapWord(r[4:], notArmed); w != notArmed {
			q.armBy(d, w)
		}
	}
}

// waits says whether the request at an index has been posted and not been taken.
func (q *qp) waits(index uint16) bool { return index-q.next < q.posted()-q.next }

// name is what violations call the page.
func (u *uar) name() string { return fmt.Sprintf("UAR %#x", u.n) }
