// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// A device and its host access some words of the host's memory concurrently. They are doorbell
// records, and the words of completions and events that contain the owner bit. They must be
// aligned. The callers of the following functions ensure this.

// Aligned reports whether b starts at an aligned word of 4 bytes.
func Aligned(b []byte) bool {
	return len(b) >= 4 && uintptr(unsafe.Pointer(unsafe.SliceData(b)))%4 == 0
}

// LoadWord reads a big-endian word that the host may be storing to.
func LoadWord(b []byte) uint32 {
	var w [4]byte
	_ = b[3]
	binary.NativeEndian.PutUint32(w[:], atomic.LoadUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b)))))
	return binary.BigEndian.Uint32(w[:])
}

// StoreWord writes a word that the host may be reading. Earlier writes are visible to the host
// when it reads the word.
func StoreWord(b []byte, w [4]byte) {
	_ = b[3]
	atomic.StoreUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), binary.NativeEndian.Uint32(w[:]))
}

// SwapWord replaces a big-endian word that the host may be storing to, and returns the old
// value.
func SwapWord(b []byte, v uint32) uint32 {
	var w [4]byte
	_ = b[3]
	binary.BigEndian.PutUint32(w[:], v)
	old := atomic.SwapUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), binary.NativeEndian.Uint32(w[:]))
	binary.NativeEndian.PutUint32(w[:], old)
	return binary.BigEndian.Uint32(w[:])
}

// Aligned64 reports whether b is an aligned word of 8 bytes.
func Aligned64(b []byte) bool {
	return len(b) == 8 && uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 == 0
}

// FetchAdd adds to a word of 8 bytes in the order of the host's bytes, and returns the old value. It is also atomic with
// the processors of the host. b must be Aligned64.
func FetchAdd(b []byte, n uint64) (old uint64) {
	return atomic.AddUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), n) - n
}

// CompareSwap sets a word of 8 bytes if it has the value compare, and returns the old value, like FetchAdd.
func CompareSwap(b []byte, compare, swap uint64) (old uint64) {
	p := (*uint64)(unsafe.Pointer(unsafe.SliceData(b)))
	for {
		if old = atomic.LoadUint64(p); old != compare || atomic.CompareAndSwapUint64(p, compare, swap) {
			return old
		}
	}
}
