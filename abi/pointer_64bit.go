// SPDX-License-Identifier: Apache-2.0

//go:build !(386 || arm || mips || mipsle)

package abi

import "unsafe"

// Pointer is a __u64 of the kernel's ABI that holds the address of user memory.
//
// It is a pointer and not an integer, because the runtime may move the goroutine's stack. The
// runtime then rewrites pointers to a Go local, but not integers that hold its address.
type Pointer struct {
	ptr unsafe.Pointer
}
