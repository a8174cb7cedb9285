// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"encoding/binary"
	"fmt"
)

// Pages is a list of pages of the host's memory. The list is either in Entries, or in the host's
// memory below a table of little-endian addresses, which the device reads at each access.
type Pages struct {
	Entries []uint64 // DMA addresses.
	Table   uint64   // DMA address of the table.
	Levels  int      // levels of tables, or 0 if the list is in Entries.
	LogNode uint     // log2 of the bytes of a table below the first one, if there are several levels.
	N       uint64   // number of pages below the table.
	Shift   uint     // log2 of the size of a page.
	First   uint64   // offset of the contents in the first page.
	Flags   uint64   // bits of the addresses in tables that are flags.
}

// page returns the address of a page, or false if the list or the host's memory has none.
func (p *Pages) page(mem Memory, i uint64) (uint64, bool) {
	if p.Levels == 0 {
		if i >= uint64(len(p.Entries)) {
			return 0, false
		}
		return p.Entries[i], true
	}
	if i >= p.N {
		return 0, false
	}
	at := p.Table
	for level := p.Levels - 1; level >= 0; level-- {
		index := i
		if p.Levels > 1 {
			log := p.LogNode - 3
			index = i >> (uint(level) * log)
			if level < p.Levels-1 {
				index &= 1<<log - 1
			}
		}
		b := mem.Bytes(at+index*8, 8)
		if b == nil {
			return 0, false
		}
		at = binary.LittleEndian.Uint64(b) &^ p.Flags
	}
	return at, true
}

// At returns n bytes of the contents from off on. It returns nil if they are not all mapped or
// cross the end of a page.
func (p *Pages) At(mem Memory, off uint64, n int) []byte {
	off += p.First
	in := off & (1<<p.Shift - 1)
	if in+uint64(n) > 1<<p.Shift {
		return nil
	}
	page, ok := p.page(mem, off>>p.Shift)
	if !ok {
		return nil
	}
	return mem.Bytes(page+in, n)
}

// Walk appends n bytes of the contents from off on to dst, in pieces. It returns false if they are
// not all mapped.
func (p *Pages) Walk(mem Memory, dst [][]byte, off, n uint64) ([][]byte, bool) {
	off += p.First
	for n > 0 {
		page, ok := p.page(mem, off>>p.Shift)
		if !ok {
			return dst, false
		}
		in := off & (1<<p.Shift - 1)
		part := min(n, 1<<p.Shift-in)
		if dst, ok = Physical(mem, dst, page+in, part); !ok {
			return dst, false
		}
		off, n = off+part, n-part
	}
	return dst, true
}

// memoryPage is a size in bytes. The host maps memory in multiples of it. maxPiece bounds the bytes
// of one piece.
const (
	memoryPage = 4096
	maxPiece   = 1 << 31
)

// Physical appends memory at a DMA address to dst. It appends pages if the memory is not mapped
// in one piece.
func Physical(mem Memory, dst [][]byte, addr, n uint64) ([][]byte, bool) {
	if n <= maxPiece {
		if b := mem.Bytes(addr, int(n)); b != nil {
			return append(dst, b), true
		}
	}
	for n > 0 {
		part := min(n, memoryPage-addr%memoryPage)
		b := mem.Bytes(addr, int(part))
		if b == nil {
			return dst, false
		}
		dst = append(dst, b)
		addr, n = addr+part, n-part
	}
	return dst, true
}

// Check checks that the list has pages for size bytes of contents, and at most limit pages.
func (p *Pages) Check(size, limit uint64) error {
	n := p.N
	if p.Levels == 0 {
		n = uint64(len(p.Entries))
	}
	switch {
	case p.Shift < 12 || p.Shift > 31:
		return fmt.Errorf("pages of 2^%d bytes", p.Shift)
	case n == 0 || n > limit:
		return fmt.Errorf("%d pages, want 1 to %d", n, limit)
	case p.First >= 1<<p.Shift || (n<<p.Shift)-p.First < size:
		return fmt.Errorf("%d pages of %#x bytes from %#x on, want %d bytes", n, uint64(1)<<p.Shift, p.First, size)
	}
	return nil
}
