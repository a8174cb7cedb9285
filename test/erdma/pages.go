// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"fmt"

	"purerdma/test/pci"
)

// pages is a list of pages. The list is either in entries, or in the host's memory below a table,
// which the device reads at each access.
type pages struct {
	entries []uint64 // DMA addresses.
	table   uint64   // DMA address of the table.
	levels  int      // levels of tables, or 0 if the list is in entries.
	logNode uint     // log2 of the bytes of a table, if there are several levels.
	n       uint64   // number of pages below the table.
	shift   uint     // log2 of the size of a page.
	first   uint64   // offset of the contents in the first page.
}

// page returns the address of a page, or false if the list or the host's memory has none.
func (p *pages) page(mem pci.Memory, i uint64) (uint64, bool) {
	if p.levels == 0 {
		if i >= uint64(len(p.entries)) {
			return 0, false
		}
		return p.entries[i], true
	}
	if i >= p.n {
		return 0, false
	}
	at := p.table
	for level := p.levels - 1; level >= 0; level-- {
		index := i
		if p.levels > 1 {
			log := p.logNode - 3
			index = i >> (uint(level) * log) & (1<<log - 1)
		}
		b := mem.Bytes(at+index*8, 8)
		if b == nil {
			return 0, false
		}
		at = le.Uint64(b)
	}
	return at, true
}

// at returns n bytes of the contents from off on. It returns nil if they are not all mapped or
// cross the end of a page.
func (p *pages) at(mem pci.Memory, off uint64, n int) []byte {
	off += p.first
	in := off & (1<<p.shift - 1)
	if in+uint64(n) > 1<<p.shift {
		return nil
	}
	page, ok := p.page(mem, off>>p.shift)
	if !ok {
		return nil
	}
	return mem.Bytes(page+in, n)
}

// walk appends n bytes of the contents from off on to dst, in pieces. It returns false if they are
// not all mapped.
func (p *pages) walk(mem pci.Memory, dst [][]byte, off, n uint64) ([][]byte, bool) {
	off += p.first
	for n > 0 {
		page, ok := p.page(mem, off>>p.shift)
		if !ok {
			return dst, false
		}
		in := off & (1<<p.shift - 1)
		part := min(n, 1<<p.shift-in)
		if dst, ok = physical(mem, dst, page+in, part); !ok {
			return dst, false
		}
		off, n = off+part, n-part
	}
	return dst, true
}

// physical appends memory at a DMA address to dst. It appends pages if the memory is not mapped
// in one piece.
func physical(mem pci.Memory, dst [][]byte, addr, n uint64) ([][]byte, bool) {
	if n <= maxMessage {
		if b := mem.Bytes(addr, int(n)); b != nil {
			return append(dst, b), true
		}
	}
	for n > 0 {
		part := min(n, pageSize-addr%pageSize)
		b := mem.Bytes(addr, int(part))
		if b == nil {
			return dst, false
		}
		dst = append(dst, b)
		addr, n = addr+part, n-part
	}
	return dst, true
}

// check checks that the list has pages for size bytes of contents.
func (p *pages) check(size uint64) error {
	n := p.n
	if p.levels == 0 {
		n = uint64(len(p.entries))
	}
	switch {
	case p.shift < 12 || p.shift > 31:
		return fmt.Errorf("pages of 2^%d bytes", p.shift)
	case n == 0 || n > maxPages:
		return fmt.Errorf("%d pages, want 1 to %d", n, maxPages)
	case p.first >= 1<<p.shift || (n<<p.shift)-p.first < size:
		return fmt.Errorf("%d pages of %#x bytes from %#x on, want %d bytes", n, uint64(1)<<p.shift, p.first, size)
	}
	return nil
}
