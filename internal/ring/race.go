// SPDX-License-Identifier: Apache-2.0

//go:build race

package ring

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// words has an element for each word in shared memory, by its hash. The race detector only covers
// Go's memory. With a fake kernel both sides are in one program, and the detector would report a data
// race although a word in shared memory orders the accesses. So load and store report the order by
// the element of the word.
var words [1 << 16]uint32

func order(word *atomic.Uint32) unsafe.Pointer {
	return unsafe.Pointer(&words[uint64(uintptr(unsafe.Pointer(word)))*0x9e3779b97f4a7c15>>48])
}

// load loads a word. Writes before its store are visible to the caller.
func load(word *atomic.Uint32) uint32 {
	v := word.Load()
	runtime.RaceAcquire(order(word))
	return v
}

// store stores a word.
func store(word *atomic.Uint32, v uint32) {
	runtime.RaceReleaseMerge(order(word))
	word.Store(v)
}
