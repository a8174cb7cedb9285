// SPDX-License-Identifier: Apache-2.0

//go:build 386 || arm || mipsle

package abi

import "unsafe"

// Pointer is a __u64 of the kernel's ABI that holds the address of user memory:
// on a little-endian 32-bit machine, the pointer and then four zero bytes.
type Pointer struct {
	ptr unsafe.Pointer
	_   uint32
}
