// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// TestFile shows that two packages whose paths have the same last element get different files, and that a
// package keeps its file.
func TestFile(t *testing.T) {
	owner := map[string]string{}
	for range 2 {
		for _, tt := range []struct{ pkg, want string }{
			{"purerdma/cm", "bin/cm.test"},
			{"purerdma/a/faults", "bin/faults.test"},
			{"purerdma/b/faults", "bin/purerdma/b/faults/faults.test"},
		} {
			if got := file("bin", tt.pkg, owner); got != tt.want {
				t.Errorf("file(bin, %s) = %s, want %s", tt.pkg, got, tt.want)
			}
		}
	}
}
