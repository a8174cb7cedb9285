// SPDX-License-Identifier: Apache-2.0

//go:build (amd64 || arm64) && !purego

package mmio

import "unsafe"

// Ordered reports that the functions order their stores for a device. Without it they
// are for devices that are memory of this process only.
const Ordered = true

// Ring announces new work to a device, in four steps. First it stores v, which is in the device's
// byte order, to the record. Then it copies from src to the half of the register whose turn it is.
// The copy has blocks times 64 bytes, or with 0 blocks 8 bytes. Then it flushes the copy out of the
// processor. At last it stores 0 to the lock. All stores before the call are visible to the device
// before v, and v before the register's store.
//
// The stores to the register are in ascending order. Stores of blocks have 16 bytes on amd64 and 64
// on arm64, other stores 8 bytes. src is aligned to the width of the stores, and may be memory of
// any kind.
//
//go:noescape
func Ring(b *Bell, v uint32, src unsafe.Pointer, blocks uintptr)

// RingWrap is Ring for a copy of two pieces, n1 blocks of 64 bytes from src1 and n2 from src2. Both
// are at least 1.
//
//go:noescape
func RingWrap(b *Bell, v uint32, src1 unsafe.Pointer, n1 uintptr, src2 unsafe.Pointer, n2 uintptr)

// Arm stores v, in the device's byte order, to the record db, and then w to the
// register reg, by one store of 8 bytes, and flushes it.
//
//go:noescape
func Arm(db *uint32, v uint32, reg unsafe.Pointer, w uint64)

// Doorbell announces new work to a device, in three steps. First it stores v, which is in the
// device's byte order, to the record. Then it stores v to the register, which is not
// write-combining memory, by one store of 8 bytes. At last it stores 0 to the lock. All stores
// before the call are visible to the device before the record, and the record before the register.
//
//go:noescape
func Doorbell(record *uint64, v uint64, reg unsafe.Pointer, lock *uint32)

// Copy copies n times 16 bytes, at least once, from src to write-combining memory of the device, and flushes them
// out of the processor. All stores before the call are visible to the device first. The stores have 8 bytes and are in
// ascending order. src is aligned to 8 bytes, and may be memory of any kind.
//
//go:noescape
func Copy(reg, src unsafe.Pointer, n uintptr)

// Record stores v, in the device's byte order, to a record in memory, after all earlier stores.
//
//go:noescape
func Record(p *uint32, v uint32)
