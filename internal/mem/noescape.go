// SPDX-License-Identifier: Apache-2.0

package mem

import "unsafe"

// NoEscape returns s, and hides from the compiler's escape analysis that the result is s. A
// literal of the caller then stays on its stack although s is passed to a method of an
// interface. The method must keep no reference to s, nor to what its elements refer to, after it
// has returned, and must pass none to another goroutine.
//
// Only the address is hidden, and the header of the slice is written word by word. A copy of a whole header
// costs more than the rest of a short post, because its load of 16 bytes waits for two stores of 8.
func NoEscape[T any](s []T) []T {
	hidden := header{unsafe.Pointer(NoEscapeOne(unsafe.SliceData(s))), len(s), cap(s)}
	return *(*[]T)(unsafe.Pointer(&hidden))
}

// header is a slice in memory, as the compiler lays it out.
type header struct {
	data     unsafe.Pointer
	len, cap int
}

// NoEscapeOne is NoEscape for one value. The integer is safe, although the stack of a goroutine may move. It
// moves only at calls, and there is none between the two conversions.
func NoEscapeOne[T any](p *T) *T {
	hidden := *(*uintptr)(unsafe.Pointer(&p))
	return *(**T)(unsafe.Pointer(&hidden))
}
