// SPDX-License-Identifier: Apache-2.0

package netxtreme

import "fmt"

// ring handles a store to a page of doorbells.
func (d *Device) ring(off uint32, p []byte) {
	name := fmt.Sprintf("doorbell %#x", off)
	if off%pageSize >= pushSize && d.registered {
		d.writePush(name, off, p)
		return
	}
	if len(p) != 8 || off%8 != 0 {
		d.violation(name, "a store of %d bytes", len(p))
		return
	}
	v := le.Uint64(p)
	if !d.registered {
		return // a page is from before a reset, and its owner cannot know that yet
	}
	dpi := off/pageSize - doorbellStart/pageSize
	const ethernet = 1
	if kind := uint8(bits(v, 63, 60)); kind == doorbellPushStart || kind == doorbellPushEnd {
		d.ringPush(name, dpi, off%pageSize, v)
	} else if kind == doorbellNQ || kind == doorbellNQArm || kind == doorbellNQMask {
		n := uint16(bits(v, 47, 32))
		if q := d.nqs[n]; q != nil {
			q.ring(uint32(bits(v, 23, 0)), kind == doorbellNQArm)
		} else if !d.freed[n] {
			d.violation(name, "%#x: there is no notification queue %d", v, bits(v, 51, 32))
		}
	} else if bits(v, 57, 56) == ethernet {
		d.ringEthernet(name, kind, uint16(bits(v, 47, 32)), uint32(bits(v, 23, 0)), uint8(bits(v, 26, 25)))
	} else {
		d.ringRDMA(name, dpi, kind, uint32(bits(v, 51, 32)), uint32(bits(v, 23, 0)), uint8(bits(v, 26, 25)))
	}
}

// ringEthernet handles a doorbell of a ring of Ethernet.
func (d *Device) ringEthernet(name string, kind uint8, n uint16, index uint32, toggle uint8) {
	c, t, r := d.completions[n], d.txs[n], d.rxs[n]
	switch {
	case (kind == doorbellCQ || kind == doorbellCQArmAll) && c != nil:
		c.ring(index, kind == doorbellCQArmAll, toggle)
	case kind == doorbellSQ && t != nil:
		t.ring(index)
	case kind == doorbellSRQ && r != nil:
		r.ring(index)
	case kind != doorbellSQ && d.freed[n]:
	default:
		d.violation(name, "there is no ring %d for a doorbell of type %d", n, kind)
	}
}

// ringRDMA handles a doorbell of a queue of RDMA on the page of a DPI. The kernel uses the first
// page for its own queues, and to let the queues of programs be armed.
func (d *Device) ringRDMA(name string, dpi uint32, kind uint8, n, index uint32, toggle uint8) {
	switch kind {
	case doorbellSQ, doorbellRQ:
		q := d.qps[n]
		if q == nil || q.dpi != dpi {
			d.stale(name, "QP %#x does not exist or has another page", n)
			return
		}
		if kind == doorbellSQ {
			q.ringSend(index)
		} else {
			q.ringReceive(index)
		}
	case doorbellSRQ, doorbellSRQArm, doorbellSRQArmEna:
		s := d.srqs[n]
		if s == nil || s.dpi != dpi && kind == doorbellSRQ {
			d.stale(name, "SRQ %#x does not exist or has another page", n)
			return
		}
		s.ring(kind, index, toggle)
	case doorbellCQ, doorbellCQArmSE, doorbellCQArmAll, doorbellCQArmEna, doorbellCutoffAck:
		q := d.cqs[n]
		if q == nil || q.dpi != dpi && kind != doorbellCQArmEna {
			d.stale(name, "CQ %#x does not exist or has another page", n)
			return
		}
		q.ring(kind, index, toggle)
	case doorbellNull:
	default:
		d.violation(name, "doorbells of type %d are not supported", kind)
	}
}

// stale reports a doorbell of a queue that does not exist, unless the kernel may have destroyed the queue.
func (d *Device) stale(object, format string, args ...any) {
	if !d.removing {
		d.violation(object, format, args...)
	}
}
