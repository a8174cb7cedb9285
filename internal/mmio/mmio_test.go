// SPDX-License-Identifier: Apache-2.0

package mmio

import (
	"bytes"
	"testing"
	"unsafe"
)

// page has the alignment of a register.
type page [512]uint64

func fill(p *page, b byte) {
	for i := range p {
		p[i] = 0x0101010101010101 * uint64(b)
	}
}

func (p *page) bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(p)), len(p)*8) }

func TestRing(t *testing.T) {
	for blocks := range uintptr(5) {
		var src, reg page
		for i := range src {
			src[i] = uint64(i) * 0x0102030405060708
		}
		fill(&reg, 0xee)
		db, lock := uint32(1), [3]uint32{7, 1, 7}
		bell := Bell{Record: &db, Lock: &lock[1], Register: &Register{Base: unsafe.Pointer(&reg[8])}}
		Ring(&bell, 0x11223344, unsafe.Pointer(&src[16]), blocks)
		if db != 0x11223344 || lock != [3]uint32{7, 0, 7} {
			t.Errorf("Ring with %d blocks: record = %#x, lock = %v, want 0x11223344 and a free lock", blocks, db, lock)
		}
		n := max(int(blocks)*64, 8)
		check(t, &reg, 64, src.bytes()[128:128+n])
	}
}

// TestTurns checks that the halves of a register are used in turn. A register of size 0 has no halves.
func TestTurns(t *testing.T) {
	for _, size := range []uintptr{0, 256, 1024} {
		var src, reg page
		src[0], src[8] = 0x1122334455667788, 0x99aabbccddeeff00
		var db, lock uint32
		bell := Bell{Record: &db, Lock: &lock, Register: &Register{Base: unsafe.Pointer(&reg[32]), Size: size}}
		for turn := range 4 {
			at := 256 + turn%2*int(size)
			fill(&reg, 0xee)
			Ring(&bell, 1, unsafe.Pointer(&src[0]), 0)
			check(t, &reg, at, src.bytes()[:8])
			*bell.Register = Register{Base: bell.Register.Base, Offset: bell.Register.Offset ^ size, Size: size}
			fill(&reg, 0xee)
			RingWrap(&bell, 1, unsafe.Pointer(&src[0]), 1, unsafe.Pointer(&src[8]), 1)
			check(t, &reg, at, src.bytes()[:128])
		}
	}
}

func TestRingWrap(t *testing.T) {
	var src, reg page
	for i := range src {
		src[i] = uint64(i) * 0x0102030405060708
	}
	for n1 := uintptr(1); n1 < 4; n1++ {
		n2 := 4 - n1
		fill(&reg, 0xee)
		db, lock := uint32(1), uint32(1)
		bell := Bell{Record: &db, Lock: &lock, Register: &Register{Base: unsafe.Pointer(&reg[0])}}
		RingWrap(&bell, 5, unsafe.Pointer(&src[64]), n1, unsafe.Pointer(&src[0]), n2)
		if db != 5 || lock != 0 {
			t.Errorf("RingWrap: record = %d, lock = %d, want 5 and 0", db, lock)
		}
		check(t, &reg, 0, append(append([]byte(nil), src.bytes()[512:512+n1*64]...), src.bytes()[:n2*64]...))
	}
}

func TestArm(t *testing.T) {
	var reg page
	fill(&reg, 0xee)
	db := [3]uint32{7, 7, 7}
	Arm(&db[1], 9, unsafe.Pointer(&reg[4]), 0x8877665544332211)
	if db != [3]uint32{7, 9, 7} {
		t.Errorf("Arm: records = %v, want [7 9 7]", db)
	}
	w := uint64(0x8877665544332211)
	check(t, &reg, 32, unsafe.Slice((*byte)(unsafe.Pointer(&w)), 8))
}

func TestDoorbell(t *testing.T) {
	var reg page
	fill(&reg, 0xee)
	record, lock := [3]uint64{7, 7, 7}, [3]uint32{1, 1, 1}
	Doorbell(&record[1], 0x8877665544332211, unsafe.Pointer(&reg[4]), &lock[1])
	if record != [3]uint64{7, 0x8877665544332211, 7} || lock != [3]uint32{1, 0, 1} {
		t.Errorf("Doorbell: records = %#x, locks = %v, want only the second of each to change", record, lock)
	}
	w := uint64(0x8877665544332211)
	check(t, &reg, 32, unsafe.Slice((*byte)(unsafe.Pointer(&w)), 8))
}

func TestCopy(t *testing.T) {
	for n := uintptr(1); n < 9; n++ {
		var src, reg page
		for i := range src {
			src[i] = uint64(i) * 0x0102030405060708
		}
		fill(&reg, 0xee)
		Copy(unsafe.Pointer(&reg[32]), unsafe.Pointer(&src[3]), n)
		check(t, &reg, 256, src.bytes()[24:24+16*n])
	}
}

func TestStores(t *testing.T) {
	p := [3]uint32{1, 2, 3}
	Record(&p[1], 0x80000001)
	if p != [3]uint32{1, 0x80000001, 3} {
		t.Errorf("Record: words = %x, want only the second to change", p)
	}
}

// check compares the register's page with the bytes that were stored at an offset. The bytes around them must
// not have changed.
func check(t *testing.T, reg *page, at int, want []byte) {
	t.Helper()
	all := bytes.Repeat([]byte{0xee}, len(reg)*8)
	copy(all[at:], want)
	if got := reg.bytes(); !bytes.Equal(got, all) {
		i := 0
		for got[i] == all[i] {
			i++
		}
		t.Errorf("store of %d bytes at %d: byte %d = %#x, want %#x", len(want), at, i, got[i], all[i])
	}
}
