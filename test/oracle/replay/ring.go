// SPDX-License-Identifier: Apache-2.0

//go:build linux

package replay

import (
	"bytes"
	"encoding/json"

	"purerdma/test/oracle/vector"
)

// Ring is a queue of slots of equal size, in memory that a device reads.
type Ring struct {
	Mem  []byte
	Slot int // bytes
}

// Slots returns n slots from slot at on, as one slice.
func (r Ring) Slots(at uint32, n int) []byte {
	var b []byte
	for i := range n {
		b = append(b, r.slot(int(at)+i)...)
	}
	return b
}

func (r Ring) slot(i int) []byte {
	o := i * r.Slot % len(r.Mem)
	return r.Mem[o : o+r.Slot]
}

// Poison fills the slots that the next post may write, and the pages of registers.
func (s *Session) Poison(r Ring) {
	for i := range s.Rec.Free {
		Fill(r.slot(int(s.Rec.At)+i), vector.Poison)
	}
	s.PoisonPages()
}

// Fill sets all bytes.
func Fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

// SentSlots returns the slots of the posted list. The slots behind it must be unchanged, but a failed list may have
// written them.
func (s *Session) SentSlots(r Ring) []byte {
	s.Helper()
	rec := s.Rec
	var n int
	s.Must(json.Unmarshal(rec.Slots, &n))
	if rest := r.Slots(rec.At+uint32(n), rec.Free-n); rec.RC == 0 && len(bytes.Trim(rest, string([]byte{vector.Poison}))) > 0 {
		s.Differ("bytes after the %d slots of the list changed", n)
	}
	return r.Slots(rec.At, n)
}

// CompareReceives compares the slots of the posted receives.
func (s *Session) CompareReceives(r Ring) {
	s.Helper()
	var want []vector.Hex
	s.Must(json.Unmarshal(s.Rec.Slots, &want))
	for i, w := range want {
		s.Same("slot", w, r.Slots(s.Rec.At+uint32(i), 1))
	}
}
