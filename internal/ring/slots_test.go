// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ring

import (
	"errors"
	"math"
	"testing"
)

func TestSlotsTurn(t *testing.T) {
	s, err := NewSlots(region(t, 4*120), 4, 120, 8)
	if err != nil {
		t.Fatalf("NewSlots(region(t, 4*120), 4, 120, 8): %v", err)
	}
	// The counters wrap around at 32 bits.
	put, get := uint32(math.MaxUint32-5), uint32(math.MaxUint32-5)
	for round := range uint64(20) {
		for s.LoadWord(put) == 0 {
			*InSlot[uint64](&s, put) = round<<32 | uint64(put)
			s.StoreWord(put, put|1<<31)
			put++
		}
		if put-get != 4 {
			t.Fatalf("round %d: filled slots = %d, want 4", round, put-get)
		}
		for range 3 {
			if *InSlot[uint64](&s, get) != round<<32|uint64(get) && round == 0 || s.LoadWord(get) != get|1<<31 {
				t.Fatalf("slot %d = %#x with the word %#x, want the stored values", get, *InSlot[uint64](&s, get), s.LoadWord(get))
			}
			s.StoreWord(get, 0)
			get++
		}
	}
}

func TestSlotsLayouts(t *testing.T) {
	mem := region(t, 4*120)
	for name, bad := range map[string]struct {
		n          uint32
		size, word int
	}{
		"none":            {0, 120, 8},
		"no power of two": {3, 120, 8},
		"too many":        {8, 120, 8},
		"all ones":        {math.MaxUint32, 120, 8},
		"most":            {1 << 31, 120, 8},
		"no size":         {4, 0, 0},
		"negative size":   {4, -8, 0},
		"odd size":        {4, 60, 8},
		"word beyond":     {4, 120, 120},
		"word odd":        {4, 120, 9},
		"word negative":   {4, 120, -4},
	} {
		if _, err := NewSlots(mem, bad.n, bad.size, bad.word); !errors.Is(err, ErrLayout) {
			t.Errorf("NewSlots with %s = %v, want %v", name, err, ErrLayout)
		}
	}
	if _, err := NewSlots(mem, 4, 120, 116); err != nil {
		t.Errorf("NewSlots with the word at the end: %v", err)
	}
	for _, off := range []int{-4, 478, 480, 2} {
		if _, err := Word(mem, off); !errors.Is(err, ErrLayout) {
			t.Errorf("Word(%d) = %v, want %v", off, err, ErrLayout)
		}
	}
	if w, err := Word(mem, 476); err != nil {
		t.Errorf("Word(476): %v", err)
	} else if w.Load() != 0 {
		t.Errorf("Word(476) holds %d, want 0", w.Load())
	}
}
