// SPDX-License-Identifier: Apache-2.0

package table

import (
	"errors"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	slot := make([]byte, SlotSize)
	if _, err := Decode(slot, "color"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Decode of an empty slot = %v, want %v", err, ErrNotFound)
	}
	if err := Encode(slot, "color", "blue"); err != nil {
		t.Fatal(err)
	}
	if v, err := Decode(slot, "color"); v != "blue" || err != nil {
		t.Errorf("Decode = %q, %v, want blue", v, err)
	}
	if _, err := Decode(slot, "size"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Decode of another key = %v, want %v", err, ErrNotFound)
	}
	slot[SlotSize-1]++
	if _, err := Decode(slot, "color"); !errors.Is(err, ErrTorn) {
		t.Errorf("Decode of a changed slot = %v, want %v", err, ErrTorn)
	}
	if err := Encode(slot, "color", strings.Repeat("x", SlotSize)); !errors.Is(err, ErrTooLong) {
		t.Errorf("Encode of a long value = %v, want %v", err, ErrTooLong)
	}
}
