// SPDX-License-Identifier: Apache-2.0

//go:build (amd64 || arm64) && !purego

package mmio

import "unsafe"

// Ordered reports that the functions order their stores for a device. Without it they
// are for devices that are memory of this process only.
const Ordered = true

// Ring tells a device of new work. It stores v, which is in the device's byte
// order, to the record; then copies from src to the half of the register whose turn
// it is: blocks times 64 bytes, or with 0 blocks 8 bytes; flushes the copy out of the
// processor; and then stores 0 to the lock. Whatever was stored before the call is
// visible to the device before v, and v before the register's store.
//
// The register's stores ascend. Those of blocks are of 16 bytes on amd64 and of 64 on
// arm64, the others of 8 bytes. src is aligned to the width of the stores, and may be
// memory of any kind.
//
//go:noescape
func Ring(b *Bell, v uint32, src unsafe.Pointer, blocks uintptr)

// RingWrap is Ring for a copy of two pieces: n1 blocks of 64 bytes from src1 and
// n2 from src2, neither 0.
//
//go:noescape
func RingWrap(b *Bell, v uint32, src1 unsafe.Pointer, n1 uintptr, src2 unsafe.Pointer, n2 uintptr)

// Arm stores v, in the device's byte order, to the record db, and then w to the
// register reg, by one store of 8 bytes, and flushes it.
//
//go:noescape
func Arm(db *uint32, v uint32, reg unsafe.Pointer, w uint64)

// Record stores v, in the device's byte order, to a record in memory, after
// everything that was stored before.
//
//go:noescape
func Record(p *uint32, v uint32)
