// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cdev

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoAllocs: a command allocates nothing, and neither does a wait that finds what it
// wants, whether its context may end or not.
func TestNoAllocs(t *testing.T) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(fd, "eventfd")
	if err != nil {
		t.Fatal(err)
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
				t.Fatal(err)
			}
			if err := f.Wait(ctx, read); err != nil {
				t.Fatal(err)
			}
			if err := f.WriteWhenReadable(ctx, one); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n > 5 { // the race detector has pools forget now and then
		t.Errorf("%v allocations", n)
	}
}
