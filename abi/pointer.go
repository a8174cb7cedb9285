// SPDX-License-Identifier: Apache-2.0

package abi

import "unsafe"

// NewPointer returns a Pointer to v. The object stays alive, and its address
// true, for as long as the Pointer is reachable.
func NewPointer[T any](v *T) Pointer {
	return Pointer{ptr: unsafe.Pointer(v)}
}

// NewSlicePointer returns a Pointer to the first byte of b, or the null pointer
// if b is empty.
func NewSlicePointer(b []byte) Pointer {
	return Pointer{ptr: unsafe.Pointer(unsafe.SliceData(b))}
}

// Bytes returns the memory of *v, so that a mirrored struct can be handed to a system call or
// filled from one. T must be an integer, a struct of this package or a struct made of them. It must
// hold no Go pointers except in a Pointer.
func Bytes[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// Size returns sizeof(T).
func Size[T any]() int {
	var v T
	return int(unsafe.Sizeof(v))
}
