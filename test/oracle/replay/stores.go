// SPDX-License-Identifier: Apache-2.0

//go:build linux

package replay

import (
	"encoding/binary"
	"maps"
	"slices"

	"purerdma/test/oracle/vector"
)

// PoisonPages fills the pages of registers.
func (s *Session) PoisonPages() {
	for off, p := range s.Kernel.Pages() {
		if s.Kernel.isRegisters(off) {
			Fill(p, vector.UARPoison)
		}
	}
}

// Stores returns the stores to the pages of registers since PoisonPages.
func (s *Session) Stores() []*vector.Store {
	var all []*vector.Store
	pages := s.Kernel.Pages()
	for _, off := range slices.Sorted(maps.Keys(pages)) {
		if !s.Kernel.isRegisters(off) {
			continue
		}
		p := pages[off]
		lo, hi := len(p), 0
		for i := 0; i < len(p); i += 8 {
			if binary.NativeEndian.Uint64(p[i:]) != vector.UARPoison*0x0101010101010101 {
				lo, hi = min(lo, i), i+8
			}
		}
		if hi > 0 {
			all = append(all, &vector.Store{Mmap: off, At: uint32(lo), Bytes: append(vector.Hex(nil), p[lo:hi]...)})
		}
	}
	return all
}

// CompareStores compares the stores to the pages of registers.
func (s *Session) CompareStores(want []*vector.Store) {
	s.Helper()
	got := s.Stores()
	if len(want) != len(got) {
		s.Differ("%d pages of registers written, want %d", len(got), len(want))
		return
	}
	for i, w := range want {
		g := got[i]
		if w.Mmap != g.Mmap || w.At != g.At {
			s.Differ("register %#x of page %#x, want %#x of %#x", g.At, g.Mmap, w.At, w.Mmap)
		}
		s.Same("register", w.Bytes, g.Bytes)
	}
}
