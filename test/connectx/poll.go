// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"purerdma/test/connectx/prm"
	"purerdma/test/pci"
)

// nothing is the value of a register that has been polled. No driver stores it. The operation
// of a doorbell has a zero in its first byte, and the byte of a CQ's number has only 24 bits.
const nothing = ^uint64(0)

// MapUAR makes an allocated register page memory of this process. The device cannot detect a
// store immediately. It reads the page when [Device.Poll] is called. mem is an aligned page
// that the device also writes to. MapUAR returns false if there is no such page.
//
// A register contains only the last store. A doorbell therefore applies to all queues of its
// page, and only means that there may be requests.
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

// UnmapUAR reverts MapUAR. The device no longer accesses the memory.
func (d *Device) UnmapUAR(page uint32) {
	d.fabric.lock()
	defer d.fabric.unlock()
	if u := d.uars.objects[page]; u != nil {
		d.mapped = without(d.mapped, u)
		u.mem = nil
	}
}

// doorbells lists the offsets of a page that Poll reads.
var doorbells = func() (all []int) {
	all = append(all, RegisterCQ)
	for off := RegisterSend; off < PageSize; off += sendSize {
		all = append(all, off)
	}
	return all
}()

// register returns the address of 8 bytes in the memory of a page.
func (u *uar) register(off int) *uint64 { return (*uint64)(unsafe.Pointer(&u.mem[off])) }

// taken returns the last store to a register since the previous call.
func (u *uar) taken(off int) (v [8]byte, ok bool) {
	r := u.register(off)
	if atomic.LoadUint64(r) == nothing {
		return v, false
	}
	binary.NativeEndian.PutUint64(v[:], atomic.SwapUint64(r, nothing))
	return v, true
}

// Poll reads all pages that are memory, and executes posted requests. It returns whether there
// were any.
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

// rung handles the last store to a register.
func (u *uar) rung(d *Device, off int, v []byte) {
	d.traceDoorbell(u.n, off, v)
	if d.quirks.ExactDoorbells {
		u.rungExactly(d, off, v)
		return
	}
	if off == RegisterCQ {
		n := binary.BigEndian.Uint32(v[4:])
		// A missing queue may have existed when it was armed.
		if q := d.cqs.objects[n]; q != nil && q.uar != u {
			d.violation(u.name(), "CQ %#x is armed, which is not of this page", n)
		}
		for _, q := range u.cqs {
			q.rearm(d)
		}
		return
	}
	if d.losesDoorbell() {
		return
	}
	n := uint32(prm.Ctrl.QPN.Get(v))
	if q, ok := d.queues.objects[n].(*qp); !ok {
		// It may have existed at the time of the store.
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

// notArmed is stored in the arm word of a queue's doorbell record after the queue was armed, if
// the register is memory. A card would not store to the record. Here it is the only way to
// detect that a queue was armed when the register contains another queue. No driver stores this
// value.
const notArmed = ^uint32(0)

// rearm checks whether a queue was armed, by the last store or by a store that was overwritten.
func (q *cq) rearm(d *Device) {
	if r := d.mem.Bytes(q.record, 8); r != nil && pci.Aligned(r) {
		if w := pci.SwapWord(r[4:], notArmed); w != notArmed {
			q.armBy(d, w)
		}
	}
}

// waits reports whether the request at an index is posted and pending.
func (q *qp) waits(index uint16) bool { return index-q.next < q.posted()-q.next }

// name returns the page's name in violations.
func (u *uar) name() string { return fmt.Sprintf("UAR %#x", u.n) }
