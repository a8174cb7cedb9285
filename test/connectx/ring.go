// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"
	"fmt"

	"purerdma/test/connectx/prm"
)

// Registers in a UAR.
const (
	RegisterCQ    = 0x20  // arms a completion queue, 8 bytes.
	RegisterEQArm = 0x40  // consumer index of an event queue, and arms it, 4 bytes.
	RegisterEQ    = 0x48  // consumer index only.
	RegisterSend  = 0x800 // first doorbell of send requests.
	sendSize      = 0x100 // size of each of these doorbells
)

// Ring handles a store of the host to the register page with a number. p is 4 or 8 bytes, or
// the 64 bytes of a BlueFlame copy, at offset off.
func (d *Device) Ring(page uint32, off int, p []byte) {
	d.fabric.lock()
	defer d.fabric.unlock()
	d.ring(page, off, p)
}

func (d *Device) ring(page uint32, off int, p []byte) {
	d.traceDoorbell(page, off, p)
	u := d.uars.objects[page]
	if d.removed || u == nil && d.fw.nicInterface != prm.NICInterfaceFull {
		return // the page is from before a reset, and its owner cannot know that yet
	}
	if u == nil {
		d.staleStore(fmt.Sprintf("UAR %#x", page), "a store to offset %#x, but there is no such page", off)
		return
	}
	switch {
	case (off == RegisterEQArm || off == RegisterEQ) && len(p) == 4:
		w := binary.BigEndian.Uint32(p)
		e := d.eqs.objects[w>>24]
		if e == nil || e.uar != u {
			d.violation(fmt.Sprintf("UAR %#x", page), "a doorbell of EQ %d, which is not of this page", w>>24)
			return
		}
		e.doorbell(d, w&0xffffff, off == RegisterEQArm)
	case off == RegisterCQ && len(p) == 8:
		w, n := binary.BigEndian.Uint32(p), binary.BigEndian.Uint32(p[4:])
		q := d.cqs.objects[n]
		if q == nil || q.uar != u {
			d.staleStore(fmt.Sprintf("UAR %#x", page), "CQ %#x is armed, which is not of this page", n)
			return
		}
		q.arm(d, w)
	case off >= RegisterSend && off < PageSize && len(p) >= 8 && off%sendSize+len(p) <= sendSize:
		u.send[(off-RegisterSend)/sendSize].store(d, u, off%sendSize, p)
	default:
		d.violation(fmt.Sprintf("UAR %#x", page), "a store of %d bytes to offset %#x, where no register is", len(p), off)
	}
}

// staleStore reports a store for an object that does not exist, unless the objects are being removed.
func (d *Device) staleStore(object, format string, args ...any) {
	if !d.removing {
		d.violation(object, format, args...)
	}
}

// ringQueue passes a doorbell to its queue.
func (d *Device) ringQueue(u *uar, p []byte) {
	n := binary.BigEndian.Uint32(p[4:]) >> 8
	q := d.queues.objects[n]
	if q == nil {
		d.staleStore(u.name(), "a doorbell of QP %#x, which is not there", n)
		return
	}
	q.doorbell(d, u, p)
}
