// SPDX-License-Identifier: Apache-2.0

package abi

import "unsafe"

// member returns the memory of a C union as its member T. The union is declared
// with the alignment and the size of its largest member.
func member[T, U any](u *U) *T {
	var t T
	if unsafe.Sizeof(t) > unsafe.Sizeof(*u) || unsafe.Alignof(t) > unsafe.Alignof(*u) {
		panic("abi: member is larger than its union")
	}
	return (*T)(unsafe.Pointer(u))
}
