// SPDX-License-Identifier: Apache-2.0

package ethernet

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Toeplitz returns the hash of receive-side scaling.
func Toeplitz(key, b []byte) (hash uint32) {
	window := binary.BigEndian.Uint32(key)
	next := slices.Concat(key[4:], make([]byte, len(b)))
	for i, v := range b {
		for bit := range 8 {
			if v>>(7-bit)&1 != 0 {
				hash ^= window
			}
			window = bits.RotateLeft32(window, 1)&^1 | uint32(next[i]>>(7-bit)&1)
		}
	}
	return hash
}
