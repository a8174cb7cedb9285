// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cdev

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoAllocs checks that neither a command nor a wait that succeeds at once allocates, whether or not its
// context can end.
func TestNoAllocs(t *testing.T) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatalf("unix.Eventfd(0, unix.EFD_CLOEXEC): %v", err)
	}
	f, err := New(fd, "eventfd")
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	defer f.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	one, got := []byte{1, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 8)
	read := func(fd uintptr) bool {
		_, err := ReadRaw(fd, got)
		return err == nil
	}
	n := testing.AllocsPerRun(100, func() {
		for _, mode := range []Mode{Ordinary, Raw} {
			if err := f.WriteMode(one, mode); err != nil {
				t.Fatalf("f.WriteMode(one, mode): %v", err)
			}
			if err := f.Wait(ctx, read); err != nil {
				t.Fatalf("f.Wait(ctx, read): %v", err)
			}
			if err := f.WriteWhenReadable(ctx, one); err != nil {
				t.Fatalf("f.WriteWhenReadable(ctx, one): %v", err)
			}
		}
	})
	if n > 5 { // with the race detector, pools drop some objects
		t.Errorf("allocations = %v, want at most 5", n)
	}
}
