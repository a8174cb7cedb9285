// SPDX-License-Identifier: Apache-2.0

//go:build mips

package abi

import "unsafe"

// Pointer is a __u64 of the kernel's ABI that holds the address of user memory:
// on a big-endian 32-bit machine, four zero bytes and then the pointer.
type Pointer struct {
	_   uint32
	ptr unsafe.Pointer
}
