// SPDX-License-Identifier: Apache-2.0

//go:build linux

package dbrec

import (
	"os"
	"testing"
	"unsafe"
)

// TestRecords checks that no two records overlap, and that a record is zero when it is allocated. A
// page without records must be freed.
func TestRecords(t *testing.T) {
	for _, size := range []int{16, 64, 4096} {
		var p Pool
		pageSize := os.Getpagesize()
		per := pageSize / size
		alloc := func() *Record {
			t.Helper()
			r, err := p.Alloc(pageSize, size)
			if err != nil {
				t.Fatalf("Pool.Alloc(%d, %d): %v", pageSize, size, err)
			}
			b := unsafe.Slice((*byte)(r.Mem()), size)
			for i := range b {
				if b[i] != 0 {
					t.Fatalf("byte %d of a new record = %#x, want 0", i, b[i])
				}
				b[i] = 0xff
			}
			return r
		}
		free := func(r *Record) {
			t.Helper()
			if err := p.Free(r); err != nil {
				t.Errorf("Pool.Free: %v", err)
			}
		}
		var all []*Record
		seen := make(map[unsafe.Pointer]bool)
		for range per + 1 {
			r := alloc()
			if seen[r.Mem()] || uintptr(r.Mem())%uintptr(size) != 0 {
				t.Fatalf("Pool.Alloc = %p, want a multiple of %d that is not in use", r.Mem(), size)
			}
			seen[r.Mem()] = true
			all = append(all, r)
		}
		if n := len(p.pages); n != 2 {
			t.Errorf("%d records of %d bytes use %d pages, want 2", per+1, size, n)
		}
		freed := all[0].Mem()
		free(all[0])
		if err := p.Free(all[0]); err == nil {
			t.Error("the second Pool.Free of a record succeeded")
		}
		if all[0] = alloc(); per > 1 && all[0].Mem() != freed {
			t.Errorf("Pool.Alloc after Free = %p, want %p", all[0].Mem(), freed)
		}
		for _, r := range all {
			free(r)
		}
		if n := len(p.pages); n != 0 {
			t.Errorf("%d pages are left, want 0", n)
		}
	}
}
