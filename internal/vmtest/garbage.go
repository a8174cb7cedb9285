// SPDX-License-Identifier: Apache-2.0

package vmtest

import "math/rand/v2"

// Garbage returns n random bytes. The last is not zero, so that it shows where they end.
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

// PrivateData is how many bytes of private data a message takes, by its room on
// InfiniBand and RoCE. Of what iWARP takes, siw goes wrong with more than 251.
func PrivateData(room int) int {
	if Driver() == "siw" {
		return 251
	}
	return room
}
