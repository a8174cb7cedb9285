// SPDX-License-Identifier: Apache-2.0

package vmtest

import "math/rand/v2"

// Garbage returns n random bytes. The last byte is not zero, so that it marks the end.
func Garbage(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	if n > 0 {
		b[n-1] |= 1
	}
	return b
}

// PrivateData returns the number of bytes of private data that a message can hold. room is the number on
// InfiniBand and RoCE. iWARP allows more than siw, which fails with more than 251 bytes.
func PrivateData(room int) int {
	if Driver() == "siw" {
		return 251
	}
	return room
}
