// SPDX-License-Identifier: Apache-2.0

// Package mmio stores to registers of a device and to the memory that the device reads together
// with them. It keeps the order and the width that the device needs. Go's memory model defines
// neither. A plain store may be moved or split. A store of sync/atomic is, on amd64, a locked
// read-modify-write, which must never reach a register.
//
// The stores are assembly on amd64 and arm64. An assembly function is never
// preempted by the runtime, so a copy to a register is not left half done. Each
// call is opaque to the compiler, which moves no memory access across it.
//
//	                      amd64                arm64
//	before a record       nothing: stores      DMB OSHST
//	                      are in order
//	before a register     SFENCE               DSB ST
//	  that is uncached    nothing              DMB OSHST
//	after a register      SFENCE               DSB ST
//	  that is uncached    nothing              nothing
//	release of a lock     plain store          STLR
//
// On other processors, and with the build tag purego, Ordered is false. The functions are then for
// devices that are memory of this process, as in tests. Stores of sync/atomic are ordered for other
// threads, but not for a device. On ppc64le no barrier follows the store to the record. On riscv64
// the barrier does not include input and output. On s390x registers need special instructions, and
// 32-bit systems need two stores for 8 bytes.
package mmio

import "unsafe"

// Bell announces new work of a queue to a device.
type Bell struct {
	Record   *uint32 // in memory that the device reads
	Lock     *uint32 // lock of the queue or the register, or an unused word
	Register *Register
}

// Register is a register that Ring stores to. It has two halves, which are used in
// turn, so that a store need not wait until the one before has left the processor. The
// half is aligned to the bytes that are stored.
type Register struct {
	Base   unsafe.Pointer
	Offset uintptr // of the half whose turn it is: 0 or Size
	Size   uintptr // bytes of a half; 0: there are no halves
}
