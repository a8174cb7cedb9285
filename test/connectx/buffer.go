// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"

	"purerdma/test/connectx/prm"
)

// buffer is the memory of a queue, as a list of pages.
type buffer struct {
	pages []uint64 // DMA addresses
	shift uint     // log2 of the size of a page
	first uint64   // offset of the queue in the first page
}

// newBuffer parses a page list of a command. logPage is the log2 of a page's size minus 12,
// offset is in 64ths of a page, and size is the queue's size. The owner of the queue calls
// hold.
func (d *Device) newBuffer(pas []byte, logPage, offset, size uint64) (buffer, error) {
	b := buffer{shift: uint(logPage) + 12}
	b.first = offset << b.shift >> 6
	need := (b.first + size + 1<<b.shift - 1) >> b.shift
	if uint64(len(pas)) < need*8 {
		return b, refuse(prm.StatusBadParam, "a queue of %#x bytes has %d pages of %#x bytes, not %d", size, need, uint64(1)<<b.shift, len(pas)/8)
	}
	if err := d.queuePages.room(need); err != nil {
		return b, err
	}
	b.pages = make([]uint64, need)
	for i := range b.pages {
		b.pages[i] = binary.BigEndian.Uint64(pas[8*i:]) &^ 0xfff
	}
	return b, nil
}

// hold adds by, which is 1 or -1, to the number of uses of all queues' pages.
func (b *buffer) hold(d *Device, by users) {
	d.queuePages.used += uint64(by) * uint64(len(b.pages))
}

// at returns n bytes of the queue from off on. It returns nil if they are not all mapped or
// cross the end of a page.
func (b *buffer) at(mem Memory, off uint64, n int) []byte {
	off += b.first
	page, in := off>>b.shift, off&(1<<b.shift-1)
	if page >= uint64(len(b.pages)) || in+uint64(n) > 1<<b.shift {
		return nil
	}
	return mem.Bytes(b.pages[page]+in, n)
}

// put writes the page list to the answer of a query.
func (b *buffer) put(pas []byte) {
	for i, p := range b.pages {
		if len(pas) < 8*i+8 {
			return
		}
		binary.BigEndian.PutUint64(pas[8*i:], p)
	}
}
