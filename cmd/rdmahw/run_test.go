// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// TestAssigned distinguishes an address of this host from other texts.
func TestAssigned(t *testing.T) {
	for addr, want := range map[string]string{"127.0.0.1": "127.0.0.1", "192.0.2.1": "", "": "", "nowhere": ""} {
		if got := assigned(addr); got != want {
			t.Errorf("assigned(%s) = %q, want %q", addr, got, want)
		}
	}
}
