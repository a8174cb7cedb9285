// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"
	"testing"
)

// TestBuffer accesses parts of a queue whose pages are not consecutive.
func TestBuffer(t *testing.T) {
	mem := &hostMemory{memoryBase, make([]byte, 4*4096)}
	var pas []byte
	for _, page := range []uint64{1, 0, 3} {
		pas = binary.BigEndian.AppendUint64(pas, memoryBase+page*4096)
	}
	d := New(Config{Memory: mem})
	b, err := d.newBuffer(pas, 0, 1, 3*4096-64) // the queue starts at byte 64
	if err != nil {
		t.Fatalf("d.newBuffer: %v", err)
	}
	for _, tc := range []struct {
		off  uint64
		n    int
		want int // offset in memory, -1 for none
	}{
		{0, 64, 4096 + 64},
		{4096 - 128, 64, 4096 + 4096 - 64},
		{4096 - 64, 64, 0},
		{4096 - 128, 128, -1}, // crosses the end of a page
		{3*4096 - 128, 64, 3*4096 + 4096 - 64},
		{3*4096 - 64, 64, -1}, // crosses the end of the queue
		{1 << 62, 64, -1},
	} {
		got := b.at(mem, tc.off, tc.n)
		if (got == nil) != (tc.want < 0) || got != nil && (&got[0] != &mem.b[tc.want] || len(got) != tc.n) {
			t.Errorf("at(%#x, %d) returned %d bytes, or other memory", tc.off, tc.n, len(got))
		}
	}
	if _, err := d.newBuffer(pas, 0, 1, 3*4096); err == nil {
		t.Error("newBuffer of a queue that is longer than its pages = nil error")
	}
	if b, err := d.newBuffer(nil, 31, 63, 0); err != nil && b.pages != nil {
		t.Errorf("newBuffer of an empty queue = %v", err)
	}
}
