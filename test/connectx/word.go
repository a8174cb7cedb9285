// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// The words below are what the device and the host use at the same time: doorbell
// records, and the last word of a completion or an event, which says whose it is.
// They must be aligned, which the callers see to.

// aligned says whether a word can be at the beginning of b.
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

// storeWord writes a word that the host may be reading. What was written before is
// there when it sees it.
func storeWord(b []byte, w [4]byte) {
	_ = b[3]
	atomic.StoreUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), binary.NativeEndian.Uint32(w[:]))
}

// swapWord puts a word in the place of one that the host may be storing to, and
// returns what was there.
func swapWord(b []byte, v uint32) uint32 {
	var w [4]byte
	_ = b[3]
	binary.BigEndian.PutUint32(w[:], v)
	old := atomic.SwapUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), binary.NativeEndian.Uint32(w[:]))
	binary.NativeEndian.PutUint32(w[:], old)
	return binary.BigEndian.Uint32(w[:])
}
