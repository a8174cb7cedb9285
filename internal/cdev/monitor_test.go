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

// TestWokenLetsOthersRun: where there is one processor, who has waited for a device and
// then only computes is interrupted, though he has fetched the event by a raw call.
func TestWokenLetsOthersRun(t *testing.T) {
	vmtest.OthersRun(t, 1, func(event *os.File) (wait, step func()) {
		fd, err := syscall.Dup(int(event.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		f, err := New(fd, "pipe")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		wait = func() {
			err := f.Wait(context.Background(), func(fd uintptr) bool {
				_, err := ReadRaw(fd, make([]byte, 1))
				return err == nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		return wait, func() {}
	})
}
