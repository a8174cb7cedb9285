// SPDX-License-Identifier: Apache-2.0

//go:build linux

package faults

import "testing"

// TestReceiveCounterModulo uses a card that numbers receives by their slots.
func TestReceiveCounterModulo(t *testing.T) {
	quirky(t, 0, 1, 0)
	newLink(t).messages(t, 600)
}
