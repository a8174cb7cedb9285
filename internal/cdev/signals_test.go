// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cdev

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// blocked returns the signals that this thread has blocked, in the kernel's words.
func blocked(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if mask, ok := strings.CutPrefix(line, "SigBlk:"); ok {
			return strings.TrimSpace(mask)
		}
	}
	t.Fatal("the kernel does not say which signals are blocked")
	return ""
}

// TestBlockSignals: all signals are blocked that can be, and are not afterwards.
func TestBlockSignals(t *testing.T) {
	const all = "fffffffe7ffbfeff" // but SIGKILL, SIGSTOP, 32 and 33
	runtime.LockOSThread()         // it is a thread's
	defer runtime.UnlockOSThread()
	before := blocked(t)
	if err := blockSignals(func() error {
		if mask := blocked(t); mask != all {
			t.Errorf("blocked are %s, not %s", mask, all)
		}
		return unix.EBADF
	}); err != unix.EBADF {
		t.Error(err)
	}
	if after := blocked(t); after != before {
		t.Errorf("blocked were %s, and are %s", before, after)
	}
}

// TestWriteSignalsBlocked writes with signals blocked, and fails to.
func TestWriteSignalsBlocked(t *testing.T) {
	f, out := packets(t)
	if err := f.WriteMode([]byte("command"), SignalsBlocked); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 16)
	if n, err := unix.Read(out, b); err != nil || string(b[:n]) != "command" {
		t.Errorf("%q %v", b[:n], err)
	}
	unix.Shutdown(out, unix.SHUT_RDWR)
	if err := f.WriteMode([]byte("command"), SignalsBlocked); err != unix.EPIPE {
		t.Error(err)
	}
}
