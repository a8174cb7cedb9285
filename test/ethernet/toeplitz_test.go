// SPDX-License-Identifier: Apache-2.0

package ethernet

import (
	"encoding/hex"
	"testing"
)

// TestToeplitz uses values from the definition of receive-side scaling.
func TestToeplitz(t *testing.T) {
	key, _ := hex.DecodeString("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa")
	for in, want := range map[string]uint32{
		"420995bba18e6450":         0x323e8fc2,
		"420995bba18e64500aea06e6": 0x51ccc178,
	} {
		b, _ := hex.DecodeString(in)
		if got := Toeplitz(key, b); got != want {
			t.Errorf("Toeplitz(key, %s) = %#x, want %#x", in, got, want)
		}
	}
}
