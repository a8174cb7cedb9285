// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"fmt"

	"purerdma/test/pci"
)

// firstExtended and endExtended are the numbers of the first page of extended doorbells in BAR 0,
// and of the page after the last one.
const (
	firstExtended = extended / pageSize
	endExtended   = barSize / pageSize
)

// ring handles a store to a page of doorbells.
func (d *Device) ring(off uint32, p []byte) {
	name := fmt.Sprintf("doorbell %#x", off)
	page := off / pageSize
	if len(p) != 8 || off%8 != 0 {
		d.violation(name, "a store of %d bytes", len(p))
		return
	}
	v := le.Uint64(p)
	d.trace("%s: %#x", name, v)
	if d.cmdq == nil {
		return // a page is from before a reset, and its owner cannot know that yet
	}
	switch {
	case off >= extended && !d.dbs[page]:
		d.violation(name, "the page is not allocated")
	case off >= extended:
		d.ringExtended(name, page, v)
	case off >= cqDoorbells:
		d.ringCQ(name, 0, v)
	case off >= rqDoorbells:
		d.ringRQ(name, 0, v)
	default:
		d.ringSQ(name, 0, v)
	}
}

// ringExtended handles a doorbell on an extended page, whose users determine the kind of the
// doorbell.
func (d *Device) ringExtended(name string, page uint32, v uint64) {
	switch page % 3 {
	case sendPage:
		d.ringSQ(name, page, v)
	case receivePage:
		d.ringRQ(name, page, v)
	default:
		d.ringCQ(name, page, v)
	}
}

func (d *Device) ringSQ(name string, page uint32, v uint64) {
	q := d.qps[uint32(bits(v, 51, 32))]
	if q == nil || q.group != group(page) {
		d.violation(name, "QP %#x does not exist or has another page", bits(v, 51, 32))
		return
	}
	q.ringSend(uint16(v))
}

func (d *Device) ringRQ(name string, page uint32, v uint64) {
	q := d.qps[uint32(v>>32)]
	if q == nil || q.group != group(page) {
		d.violation(name, "QP %#x does not exist or has another page", v>>32)
		return
	}
	q.ringReceive(uint16(v))
}

func (d *Device) ringCQ(name string, page uint32, v uint64) {
	q := d.cqs[uint32(bits(v, 55, 32))]
	if q == nil || q.group != group(page) {
		d.violation(name, "CQ %#x does not exist or has another page", bits(v, 55, 32))
		return
	}
	if b := d.mem.Bytes(q.record, dbRecordSize); b != nil && pci.Aligned(b) && bits(le.Uint64(b), 55, 32) != uint64(q.n) {
		d.violation(q.name(), "a doorbell, but the doorbell record contains %#x", le.Uint64(b))
	}
	q.ring(v)
}

// Kinds of extended pages, as the remainder of their numbers. The pages of one program are a group.
const (
	sendPage       = 0
	receivePage    = 1
	completionPage = 2
)

// group returns the first page of the group of an extended page, or 0 for another page.
func group(page uint32) uint32 {
	if page < firstExtended {
		return 0
	}
	return page / 3 * 3
}

// allocDB allocates a page for each kind of doorbell. The header of Linux's driver calls the first
// page of the answer the page of receive queues, and the second one the page of completion queues.
// But the driver maps the first page for completion queues, and the second one for receive queues.
func allocDB(d *Device, in []byte) (answer, error) {
	for page := uint32(firstExtended+2) / 3 * 3; page+2 < endExtended; page += 3 {
		if d.dbs[page] {
			continue
		}
		for kind := range uint32(3) {
			d.dbs[page+kind] = true
		}
		return answer{uint64(page+completionPage)<<48 | uint64(page+receivePage)<<32 | uint64(page+sendPage)}, nil
	}
	return answer{}, fmt.Errorf("all pages are in use")
}

// freeDB frees the pages of one call of allocDB.
func freeDB(d *Device, in []byte) (answer, error) {
	page := uint32(le.Uint16(in[14:]))
	if page%3 != sendPage || !d.dbs[page] || uint32(le.Uint16(in[12:])) != page+completionPage || uint32(le.Uint16(in[18:])) != page+receivePage {
		return answer{}, fmt.Errorf("pages %#x, %#x and %#x are not one allocation", page, le.Uint16(in[12:]), le.Uint16(in[18:]))
	}
	for kind := range uint32(3) {
		delete(d.dbs, page+kind)
	}
	return answer{}, nil
}
