// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cdev

import (
	"context"
	"os"
	"syscall"
	"testing"

	"purerdma/internal/vmtest"
)

// TestWokenLetsOthersRun checks with one processor that the runtime preempts a goroutine that only computes
// after a wait for a device. The goroutine has fetched the event by a raw system call.
func TestWokenLetsOthersRun(t *testing.T) {
	vmtest.OthersRun(t, 1, func(event *os.File) (wait, step func()) {
		fd, err := syscall.Dup(int(event.Fd()))
		if err != nil {
			t.Fatalf("syscall.Dup(int(event.Fd())): %v", err)
		}
		f, err := New(fd, "pipe")
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		t.Cleanup(func() { f.Close() })
		wait = func() {
			err := f.Wait(context.Background(), func(fd uintptr) bool {
				_, err := ReadRaw(fd, make([]byte, 1))
				return err == nil
			})
			if err != nil {
				t.Errorf("f.Wait: %v", err)
			}
		}
		return wait, func() {}
	})
}
