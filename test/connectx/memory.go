// SPDX-License-Identifier: Apache-2.0

package connectx

// Memory is the memory of the host, as the device reaches it. All that the device
// reads and writes there goes through it, which is why a wrong address cannot reach
// anything else.
type Memory interface {
	// Bytes returns n bytes of the host's memory from a DMA address on, not a
	// copy; nil if not all of them are mapped, in one piece. n may be anything,
	// also negative.
	Bytes(addr uint64, n int) []byte
}
