// SPDX-License-Identifier: Apache-2.0

package prm

import "encoding/binary"

// Field is one number in a struct, with up to 32 bits of a dword, or 64 bits.
type Field struct {
	off   uint16 // offset of its dword, in bytes
	lsb   uint8
	width uint8
}

// bits returns the field of the dword at off from bit msb down to lsb.
func bits(off uint16, msb, lsb uint8) Field { return Field{off, lsb, msb - lsb + 1} }

// bit returns a field of one bit.
func bit(off uint16, n uint8) Field { return Field{off, n, 1} }

// dword returns a field of 32 bits.
func dword(off uint16) Field { return Field{off, 0, 32} }

// qword returns a field of 64 bits.
func qword(off uint16) Field { return Field{off, 0, 64} }

// Get returns the field of the struct b. It panics if b is too short for it.
func (f Field) Get(b []byte) uint64 {
	if f.width == 64 {
		return binary.BigEndian.Uint64(b[f.off:])
	}
	return uint64(binary.BigEndian.Uint32(b[f.off:])>>f.lsb) & (1<<f.width - 1)
}

// Is reports whether the field of the struct b is not zero.
func (f Field) Is(b []byte) bool { return f.Get(b) != 0 }

// Set sets the field of the struct b to the low bits of v. It panics if b is too short for it.
func (f Field) Set(b []byte, v uint64) {
	if f.width == 64 {
		binary.BigEndian.PutUint64(b[f.off:], v)
		return
	}
	mask := uint32(1)<<f.width - 1 // 1<<32 is 0 for 32 bits
	old := binary.BigEndian.Uint32(b[f.off:])
	binary.BigEndian.PutUint32(b[f.off:], old&^(mask<<f.lsb)|(uint32(v)&mask)<<f.lsb)
}

// Area is a part of a struct that is itself a struct, or bytes.
type Area struct{ off, n uint16 }

// area returns an area of n bytes from off on.
func area(off, n uint16) Area { return Area{off, n} }

// Of returns the part of the struct b. It panics if b is too short for it.
func (a Area) Of(b []byte) []byte { return b[a.off : a.off+a.n : a.off+a.n] }

// Len returns its length in bytes.
func (a Area) Len() int { return int(a.n) }

// Tail is the list after a struct, which extends to the end of the command.
type Tail uint16

// Of returns the bytes after the struct at the beginning of b, or none if b is shorter.
func (t Tail) Of(b []byte) []byte { return b[min(int(t), len(b)):] }
