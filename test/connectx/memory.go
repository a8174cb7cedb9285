// SPDX-License-Identifier: Apache-2.0

package connectx

// Memory is the device's access to the memory of the host. The device reads and writes host
// memory only through it, so a wrong address cannot access any other memory.
type Memory interface {
	// Bytes returns n bytes of the host's memory from a DMA address on, without copying. It
	// returns nil unless they are mapped in one piece. n may have any value, even a negative
	// one.
	Bytes(addr uint64, n int) []byte
}
