// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"

	"purerdma/test/connectx/prm"
)

// buffer is the memory of a queue, which is given as a list of pages.
type buffer struct {
	pages []uint64 // DMA addresses
	shift uint     // log2 of the size of one
	first uint64   // where the queue begins in the first
}

// newBuffer takes a page list as commands have it. logPage is the log2 of a page's
// size above 12, offset is in 64ths of a page, size is that of the queue. Whose queue
// it is holds it.
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

// hold counts, with 1, or no longer counts, with -1, the pages among those of all
// queues.
func (b *buffer) hold(d *Device, by users) {
	d.queuePages.used += uint64(by) * uint64(len(b.pages))
}

// at returns n bytes of the queue from off on, nil if they are not all mapped, or go
// over the end of a page.
func (b *buffer) at(mem Memory, off uint64, n int) []byte {
	off += b.first
	page, in := off>>b.shift, off&(1<<b.shift-1)
	if page >= uint64(len(b.pages)) || in+uint64(n) > 1<<b.shift {
		return nil
	}
	return mem.Bytes(b.pages[page]+in, n)
}

// put writes the page list to what a query answers.
func (b *buffer) put(pas []byte) {
	for i, p := range b.pages {
		if len(pas) < 8*i+8 {
			return
		}
		binary.BigEndian.PutUint64(pas[8*i:], p)
	}
}
