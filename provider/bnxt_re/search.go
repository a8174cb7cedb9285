// SPDX-License-Identifier: Apache-2.0

package bnxtre

import (
	"unsafe"

	"purerdma/provider"
)

// Behind the ring of a send queue is a table in which the adapter finds the request of a packet, to send it again. An
// entry has the numbers of the first packet of a request and of the next request. The process writes the entry of each
// request. It also does so for a QP of type UD, whose table the adapter does not use.

// Bits of search.kind. Without searchMSN an entry has the place of its request.
const (
	searchUD       = 1 << iota
	searchMSN      // entries are in the order of messages, and have the slot of the request
	searchExtended // an entry has 16 bytes, with the slot of the request
)

const (
	psnMask   = 1<<24 - 1
	psnNext   = 32 // the next request's number
	psnOpcode = 24
	psnSlot   = 8 // offset of the slot, 16 bits, in an extended entry

	msnNext = 24
	msnSlot = 48
)

// search is the table of a send queue.
type search struct {
	base     unsafe.Pointer
	kind     uint8
	mtuShift uint8  // logarithm of the path MTU
	size     uint32 // entries of a table in the order of messages
}

// entrySize returns the size of an entry in bytes.
func (c *caps) entrySize() int {
	if c.p5 && !c.msn {
		return 16
	}
	return 8
}

// packets returns the number of packets of a request.
func (t *search) packets(length uint32) uint32 {
	shift := t.mtuShift & 31
	return max((length+1<<shift-1)>>shift, 1)
}

// add writes the entry of a request at a position, which it moves on.
func (t *search) add(at *position, index uint32, op provider.SendOpcode, length uint32) {
	first := at.psn & psnMask
	if t.kind&searchUD == 0 {
		at.psn += t.packets(length)
	}
	next := at.psn & psnMask
	if t.kind&searchMSN != 0 {
		e := unsafe.Add(t.base, uintptr(at.msn)<<3)
		if t.kind&searchUD != 0 {
			put64(e, 0, 0)
			return
		}
		put64(e, 0, uint64(index)<<msnSlot|uint64(next)<<msnNext|uint64(first))
		if at.msn++; at.msn == t.size {
			at.msn = 0
		}
		return
	}
	if t.kind&searchUD != 0 {
		first, next = 0, 0
	}
	v := uint64(next)<<psnNext | uint64(op.Kernel()&0xff)<<psnOpcode | uint64(first)
	if t.kind&searchExtended == 0 {
		put64(unsafe.Add(t.base, uintptr(index)<<3), 0, v)
		return
	}
	e := unsafe.Add(t.base, uintptr(index)<<4)
	put64(e, 0, v)
	put16(e, psnSlot, uint16(index))
}
