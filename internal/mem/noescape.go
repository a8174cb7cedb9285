// SPDX-License-Identifier: Apache-2.0

package mem

import "unsafe"

// NoEscape returns s, and hides from the compiler's escape analysis that the result is s. A
// literal of the caller then stays on its stack although s is passed to a method of an
// interface. The method must keep no reference to s, nor to what its elements refer to, after it
// has returned, and must pass none to another goroutine.
//
// The integers are safe, although the stack of a goroutine may move. It moves only at calls, and
// there is none between the two conversions.
func NoEscape[T any](s []T) []T {
	hidden := *(*[3]uintptr)(unsafe.Pointer(&s))
	return *(*[]T)(unsafe.Pointer(&hidden))
}

// NoEscapeOne is NoEscape for one value.
func NoEscapeOne[T any](p *T) *T {
	hidden := *(*uintptr)(unsafe.Pointer(&p))
	return *(**T)(unsafe.Pointer(&hidden))
}
