// SPDX-License-Identifier: Apache-2.0

//go:build (!amd64 && !arm64) || purego

package mmio

import (
	"sync/atomic"
	"unsafe"
)

// mmio_asm.go describes Ordered and the functions. The compiler does not move plain stores across
// calls of sync/atomic. It keeps stores of 8 bytes whole if a register of the processor holds 8
// bytes. On 32-bit systems it does not, but devices also accept two halves there.

const Ordered = false

// Ring stores v to the record, copies from src to the register, and then stores 0 to
// the lock.
func Ring(b *Bell, v uint32, src unsafe.Pointer, blocks uintptr) {
	reg := b.Register.turn()
	atomic.StoreUint32(b.Record, v)
	if blocks == 0 {
		*(*uint64)(reg) = *(*uint64)(src)
	} else {
		copyBlocks(reg, src, blocks)
	}
	atomic.StoreUint32(b.Lock, 0)
}

// RingWrap is Ring for a copy of two pieces.
func RingWrap(b *Bell, v uint32, src1 unsafe.Pointer, n1 uintptr, src2 unsafe.Pointer, n2 uintptr) {
	reg := b.Register.turn()
	atomic.StoreUint32(b.Record, v)
	copyBlocks(reg, src1, n1)
	copyBlocks(unsafe.Add(reg, n1*64), src2, n2)
	atomic.StoreUint32(b.Lock, 0)
}

// turn returns the half whose turn it is, and moves on to the other.
func (r *Register) turn() unsafe.Pointer {
	half := unsafe.Add(r.Base, r.Offset)
	r.Offset ^= r.Size
	return half
}

// copyBlocks copies by ascending stores of 8 bytes.
func copyBlocks(dst, src unsafe.Pointer, blocks uintptr) {
	for i := uintptr(0); i < blocks*64; i += 8 {
		*(*uint64)(unsafe.Add(dst, i)) = *(*uint64)(unsafe.Add(src, i))
	}
}

// Arm stores v to db and then w to reg.
func Arm(db *uint32, v uint32, reg unsafe.Pointer, w uint64) {
	atomic.StoreUint32(db, v)
	*(*uint64)(reg) = w
	var flush uint32
	atomic.StoreUint32(&flush, 1)
}

// Doorbell stores v to the record and to the register, and then 0 to the lock.
func Doorbell(record *uint64, v uint64, reg unsafe.Pointer, lock *uint32) {
	atomic.StoreUint64(record, v)
	*(*uint64)(reg) = v
	atomic.StoreUint32(lock, 0)
}

// Copy copies n times 16 bytes from src to reg.
func Copy(reg, src unsafe.Pointer, n uintptr) {
	for i := uintptr(0); i < n*16; i += 8 {
		*(*uint64)(unsafe.Add(reg, i)) = *(*uint64)(unsafe.Add(src, i))
	}
	var flush uint32
	atomic.StoreUint32(&flush, 1)
}

// Record stores v to a record in memory, after all earlier stores.
func Record(p *uint32, v uint32) { atomic.StoreUint32(p, v) }
