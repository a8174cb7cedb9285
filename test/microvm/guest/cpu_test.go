// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestStartProcessors checks that inactive processors are started, and that a failure is an
// error.
func TestStartProcessors(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name, "online") }
	for name, online := range map[string]string{"cpu0": "", "cpu1": "0\n", "cpu2": "1\n", "cpu10": "0\n", "cpufreq": "0\n"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatalf("os.Mkdir: %v", err)
		}
		if online == "" {
			continue
		}
		if err := os.WriteFile(file(name), []byte(online), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	if err := startProcessors(dir); err != nil {
		t.Fatalf("startProcessors: %v", err)
	}
	for name, want := range map[string]string{"cpu1": "1", "cpu2": "1\n", "cpu10": "1", "cpufreq": "0\n"} {
		if b, err := os.ReadFile(file(name)); err != nil || string(b) != want {
			t.Errorf("content of %s = %q, %v, want %q", name, b, err, want)
		}
	}
	if err := os.MkdirAll(file("cpu3"), 0o755); err != nil { // a directory cannot be read
		t.Fatalf("os.MkdirAll: %v", err)
	}
	if err := startProcessors(dir); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("startProcessors with an unreadable file = %v, want EISDIR", err)
	}
}
