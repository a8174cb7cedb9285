// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestSizes maps memory of all sizes, by both kinds of system calls. The memory is zeroed, and Free
// unmaps all of it. Sizes that the kernel refuses are errors.
func TestSizes(t *testing.T) {
	page := unix.Getpagesize()
	for _, size := range []int{1, page, page + 1, rawSize - 1, rawSize, rawSize + 1, 3 * rawSize} {
		r, err := Alloc(size)
		if err != nil {
			t.Fatalf("Alloc(%d): %v", size, err)
		}
		b, whole := r.Bytes(), r.b
		if len(b) != size || len(whole)%page != 0 {
			t.Errorf("Alloc(%d) = %d bytes in a mapping of %d, want %d in a multiple of %d", size, len(b), len(whole), size, page)
		}
		for i := range whole {
			if whole[i] != 0 {
				t.Fatalf("Alloc(%d): byte %d = %d, want 0", size, i, whole[i])
			}
			whole[i] = 1
		}
		if err := Unmap(whole[1:]); !errors.Is(err, unix.EINVAL) {
			t.Errorf("Unmap of the %d bytes except the first = %v, want EINVAL", size, err)
		}
		if err := r.Free(); err != nil {
			t.Errorf("Free of %d bytes: %v", size, err)
		}
		for at := 0; at < len(whole); at += page {
			if err := unix.Madvise(whole[at:at+page], unix.MADV_NORMAL); err != unix.ENOMEM {
				t.Fatalf("unix.Madvise at byte %d of %d after Free = %v, want ENOMEM", at, size, err)
			}
		}
	}
	for _, size := range []int{-1, 0, math.MaxInt} {
		if _, err := Alloc(size); !errors.Is(err, unix.EINVAL) {
			t.Errorf("Alloc(%d) = %v, want EINVAL", size, err)
		}
	}
	if _, err := MapFile(-1, 0, page); !errors.Is(err, unix.EBADF) {
		t.Errorf("MapFile(-1) = %v, want EBADF", err)
	}
}

// TestJoin joins two halves of one mapping in both orders. One Unmap ends both. Mappings that are not
// adjacent are not joined.
func TestJoin(t *testing.T) {
	b, err := mapAnonymous(3 << 16)
	if err != nil {
		t.Fatalf("mapAnonymous(3 << 16): %v", err)
	}
	low, mid, high := b[:1<<16], b[1<<16:2<<16], b[2<<16:]
	for _, pair := range [][2][]byte{{low, mid}, {mid, low}} {
		both := Join(pair[0], pair[1])
		if len(both) != 2<<16 || &both[0] != &b[0] {
			t.Fatalf("Join = %d bytes at %p, want %d at %p", len(both), &both[0], 2<<16, &b[0])
		}
	}
	if Join(low, high) != nil || Join(high, low) != nil || Join(low, nil) != nil || Join(nil, nil) != nil {
		t.Error("Join of parts that are not adjacent = memory, want nil")
	}
	if err := Unmap(Join(mid, low)); err != nil {
		t.Fatalf("Unmap(Join(mid, low)): %v", err)
	}
	high[0] = 1 // must still be mapped
	if err := Unmap(high); err != nil {
		t.Fatalf("Unmap(high): %v", err)
	}
}

// TestPrefer has the kernel take pages from node 0, which every machine has. Prefer fails for other
// numbers.
func TestPrefer(t *testing.T) {
	r, err := Alloc(1 << 20)
	if err != nil {
		t.Fatalf("Alloc(1 << 20): %v", err)
	}
	defer r.Free()
	if err := r.Prefer(0); err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		t.Errorf("Prefer(0) = %v", err) // kernels without NUMA do not have the call, and containers may filter it
	}
	r.Bytes()[0] = 1
	for _, node := range []int{-1, maxNodes, math.MaxInt} {
		if err := r.Prefer(node); !errors.Is(err, unix.EINVAL) {
			t.Errorf("Prefer(%d) = %v, want EINVAL", node, err)
		}
	}
	if err := r.Prefer(maxNodes - 1); err == nil {
		t.Errorf("Prefer(%d) succeeds", maxNodes-1)
	}
}

// TestMapFileReadOnly reads a file's bytes through a mapping that the kernel lists as not writable.
func TestMapFileReadOnly(t *testing.T) {
	fd, err := unix.MemfdCreate("read-only", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatalf("unix.MemfdCreate: %v", err)
	}
	defer unix.Close(fd)
	page := unix.Getpagesize()
	if _, err := unix.Pwrite(fd, make([]byte, page), 0); err != nil {
		t.Fatalf("unix.Pwrite: %v", err)
	}
	b, err := MapFileReadOnly(fd, 0, page)
	if err != nil {
		t.Fatalf("MapFileReadOnly: %v", err)
	}
	if _, err := unix.Pwrite(fd, []byte{42}, 5); err != nil {
		t.Fatalf("unix.Pwrite: %v", err)
	}
	if b[5] != 42 {
		t.Errorf("byte of the mapping = %d, want 42", b[5])
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	at := uintptr(unsafe.Pointer(&b[0]))
	if want := fmt.Sprintf("%x-%x r--s", at, at+uintptr(page)); !strings.Contains(string(maps), want) {
		t.Errorf("/proc/self/maps has no line with %q", want)
	}
	if err := Replace(b); err != nil {
		t.Fatalf("Replace: %v", err)
	}
	b[5] = 1 // the memory of the process in its place
	if err := Unmap(b); err != nil {
		t.Errorf("Unmap: %v", err)
	}
}
