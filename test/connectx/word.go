// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// The device and the host access these words concurrently. They are doorbell records, and the
// last word of a completion or an event, which contains the owner bit. They must be aligned.
// The callers ensure this.

// aligned reports whether b starts at an aligned word.
func aligned(b []byte) bool {
	return len(b) >= 4 && uintptr(unsafe.Pointer(unsafe.SliceData(b)))%4 == 0
}

// loadWord reads a big-endian word that the host may be storing to.
func loadWord(b []byte) uint32 {
	var w [4]byte
	_ = b[3]
	binary.NativeEndian.PutUint32(w[:], atomic.LoadUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b)))))
	return binary.BigEndian.Uint32(w[:])
}

// storeWord writes a word that the host may be reading. Earlier writes are visible to the host
// when it reads the word.
func storeWord(b []byte, w [4]byte) {
	_ = b[3]
	atomic.StoreUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), binary.NativeEndian.Uint32(w[:]))
}

// swapWord replaces a word that the host may be storing to, and returns the old value.
func swapWord(b []byte, v uint32) uint32 {
	var w [4]byte
	_ = b[3]
	binary.BigEndian.PutUint32(w[:], v)
	old := atomic.SwapUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), binary.NativeEndian.Uint32(w[:]))
	binary.NativeEndian.PutUint32(w[:], old)
	return binary.BigEndian.Uint32(w[:])
}
