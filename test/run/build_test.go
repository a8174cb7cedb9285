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

func TestMatches(t *testing.T) {
	const skip = "^(TestSend|TestBatch)$/^(loopback|wire)$|^TestVM.*$|^TestExamples$/^(ID_Listen|a/b)$"
	for _, tt := range []struct {
		name         string
		parts, whole bool
	}{
		{"TestSend", true, false},
		{"TestVMQuery", true, true},
		{"TestExamples", true, false},
		{"TestEcho", false, false},
	} {
		if got := matches(skip, tt.name, true); got != tt.parts {
			t.Errorf("matches(%q, %s, true) = %v, want %v", skip, tt.name, got, tt.parts)
		}
		if got := matches(skip, tt.name, false); got != tt.whole {
			t.Errorf("matches(%q, %s, false) = %v, want %v", skip, tt.name, got, tt.whole)
		}
	}
}
