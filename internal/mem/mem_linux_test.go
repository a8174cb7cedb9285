// SPDX-License-Identifier: Apache-2.0

package mem

import "testing"

// TestJoin: two halves of one mapping are joined in either order, and end
// together; what does not touch is not joined.
func TestJoin(t *testing.T) {
	b, err := mapAnonymous(3 << 16)
	if err != nil {
		t.Fatal(err)
	}
	low, mid, high := b[:1<<16], b[1<<16:2<<16], b[2<<16:]
	for _, pair := range [][2][]byte{{low, mid}, {mid, low}} {
		both := Join(pair[0], pair[1])
		if len(both) != 2<<16 || &both[0] != &b[0] {
			t.Fatalf("%d bytes at %p, want %d at %p", len(both), &both[0], 2<<16, &b[0])
		}
	}
	if Join(low, high) != nil || Join(high, low) != nil || Join(low, nil) != nil || Join(nil, nil) != nil {
		t.Error("what does not touch was joined")
	}
	if err := Unmap(Join(mid, low)); err != nil {
		t.Fatal(err)
	}
	high[0] = 1 // is still there
	if err := Unmap(high); err != nil {
		t.Fatal(err)
	}
}
