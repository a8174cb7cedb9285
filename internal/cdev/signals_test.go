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

// blocked returns the mask of the signals that this thread blocks, in the kernel's format.
func blocked(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	for line := range strings.Lines(string(status)) {
		if mask, ok := strings.CutPrefix(line, "SigBlk:"); ok {
			return strings.TrimSpace(mask)
		}
	}
	t.Fatal("/proc/thread-self/status has no SigBlk")
	return ""
}

// TestBlockSignals checks that blockSignals blocks all signals that can be blocked, and unblocks them
// afterwards.
func TestBlockSignals(t *testing.T) {
	const all = "fffffffe7ffbfeff" // all except SIGKILL, SIGSTOP, 32 and 33
	runtime.LockOSThread()         // the mask belongs to a thread
	defer runtime.UnlockOSThread()
	before := blocked(t)
	if err := blockSignals(func() error {
		if mask := blocked(t); mask != all {
			t.Errorf("blocked signals = %s, want %s", mask, all)
		}
		return unix.EBADF
	}); err != unix.EBADF {
		t.Errorf("blockSignals() = %v, want EBADF", err)
	}
	if after := blocked(t); after != before {
		t.Errorf("blocked signals afterwards = %s, want %s", after, before)
	}
}

// TestWriteSignalsBlocked checks a successful and a failed write with blocked signals.
func TestWriteSignalsBlocked(t *testing.T) {
	f, out := packets(t)
	if err := f.WriteMode([]byte("command"), SignalsBlocked); err != nil {
		t.Fatalf("f.WriteMode: %v", err)
	}
	b := make([]byte, 16)
	if n, err := unix.Read(out, b); err != nil || string(b[:n]) != "command" {
		t.Errorf("unix.Read = %q, %v, want \"command\"", b[:n], err)
	}
	unix.Shutdown(out, unix.SHUT_RDWR)
	if err := f.WriteMode([]byte("command"), SignalsBlocked); err != unix.EPIPE {
		t.Errorf("WriteMode after a shutdown = %v, want EPIPE", err)
	}
}
