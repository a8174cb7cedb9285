// SPDX-License-Identifier: Apache-2.0

//go:build !(386 || arm || mips || mipsle)

package abi

import "unsafe"

// Pointer is a __u64 of the kernel's ABI that holds the address of user memory.
//
// It is a pointer and not an integer because an integer that holds the address
// of a Go local goes stale when the goroutine's stack is moved: the runtime
// rewrites pointers, it cannot know which integers are addresses.
type Pointer struct {
	ptr unsafe.Pointer
}
