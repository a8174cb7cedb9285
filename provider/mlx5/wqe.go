// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"fmt"
	"syscall"
	"unsafe"

	"purerdma/provider/internal/endian"
)

// Sizes in a work queue, bytes.
const (
	wqebb   = 64 // basic block of a send queue
	segment = 16 // what a WQE's size is counted in
)

// Operations of WQEs, and of the completions of requests.
const (
	opcodeSendInv  = 0x01
	opcodeWrite    = 0x08
	opcodeWriteImm = 0x09
	opcodeSend     = 0x0a
	opcodeSendImm  = 0x0b
	opcodeLSO      = 0x0e
	opcodeRead     = 0x10
	opcodeAtomicCS = 0x11
	opcodeAtomicFA = 0x12
	opcodeUMR      = 0x25
)

// maxSGELength is the largest element. Its length has 31 bits, and the 32nd marks inline data.
const maxSGELength = 1<<31 - 1

// putData writes a data segment: length, key, address.
func putData(p unsafe.Pointer, length, lkey uint32, addr uint64) {
	put64(p, uint64(length)<<32|uint64(lkey))
	put64(unsafe.Add(p, 8), addr)
}

// put64 stores a number for the device.
func put64(p unsafe.Pointer, v uint64) { *(*uint64)(p) = endian.Big64(v) }

//go:noinline
func tooManySGE(n int, max uint32) error {
	return fmt.Errorf("%d scatter/gather elements, %d fit: %w", n, max, syscall.EINVAL)
}

//go:noinline
func tooLong(n uint32) error {
	return fmt.Errorf("element of %d bytes, at most %d: %w", n, maxSGELength, syscall.EMSGSIZE)
}
