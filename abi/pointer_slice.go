// SPDX-License-Identifier: Apache-2.0

package abi

import "unsafe"

// Slice returns the n bytes that p points to. It is for fake kernels. p must come from a program
// that passed it together with the length n.
func (p Pointer) Slice(n int) []byte { return unsafe.Slice((*byte)(p.ptr), n) }

// View returns the start of b, which must be long enough and aligned for it, as
// a struct of this package. It is the inverse of [Bytes].
func View[T any](b []byte) *T {
	_ = b[:Size[T]()]
	return (*T)(unsafe.Pointer(unsafe.SliceData(b)))
}
