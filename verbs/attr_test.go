// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"testing"

	"purerdma/abi"
)

// TestQPAttrRoundTrip gives every byte of the kernel's struct a value of its own
// and expects it back: a field that is forgotten or swapped shows.
func TestQPAttrRoundTrip(t *testing.T) {
	var k abi.UverbsQPAttr
	for i, b := 0, abi.Bytes(&k); i < len(b); i++ {
		b[i] = byte(i + 1)
	}
	// Fields that are narrower in Go, flags, and padding.
	k.QPState, k.CurQPState, k.PathMTU, k.PathMigState = 3, 2, 5, 1
	k.EnSQDAsyncNotify, k.SQDraining, k.AHAttr.IsGlobal, k.AltAHAttr.IsGlobal = 1, 1, 1, 1
	k.Reserved = [5]uint8{}
	for _, a := range []*abi.UverbsAHAttr{&k.AHAttr, &k.AltAHAttr} {
		a.Reserved, a.GRH.Reserved = 0, 0
	}
	attr, mask := QPAttrFromKernel(&k)
	if back := QPAttrToKernel(&attr, mask); back != k {
		t.Errorf("got  %+v\nwant %+v", back, k)
	}
}
