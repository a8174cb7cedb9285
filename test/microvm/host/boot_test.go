// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"purerdma/test/microvm/arch"
	"purerdma/test/microvm/qemu"
)

// TestE2EBoots boots RDMAVM_BOOTS times and checks that each boot ends orderly. A boot that
// hangs occasionally is worse than a slow one.
func TestE2EBoots(t *testing.T) {
	if os.Getenv("RDMAVM_E2E") != "1" {
		t.Skip("boots virtual machines: set RDMAVM_E2E=1")
	}
	n, err := strconv.Atoi(os.Getenv("RDMAVM_BOOTS"))
	if err != nil {
		n = 3
	}
	o := &Options{Arch: arch.AMD64, Kernel: os.Getenv("RDMAVM_BOOTS_KERNEL"), Driver: "rxe", CPUs: 2, Stderr: os.Stderr}
	p, err := prepare(context.Background(), o)
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	path, err := lockPath(os.Getuid(), p.cache.Path())
	if err != nil {
		t.Fatalf("lockPath: %v", err)
	}
	unlock, err := lock(context.Background(), path, os.Stderr)
	if err != nil {
		t.Fatalf("lock: %v", err)
	}
	defer unlock()
	dir := t.TempDir()
	for i := range n {
		m, err := p.testMachine(o, dir)
		if err != nil {
			t.Fatalf("p.testMachine: %v", err)
		}
		m.Accel = "tcg"
		m.Append = os.Getenv("RDMAVM_BOOTS_APPEND")
		start := time.Now()
		proc, err := p.qemu.Start(m)
		if err != nil {
			t.Fatalf("p.qemu.Start: %v", err)
		}
		select {
		case <-proc.Done():
			if status, out := proc.Status(); status != qemu.OrderlyExit {
				t.Errorf("boot %d = status %d, want an orderly exit: %s", i, status, out)
			}
			t.Logf("boot %d: %.1f s", i, time.Since(start).Seconds())
		case <-time.After(15 * time.Second):
			proc.Kill()
			console, _ := os.ReadFile(m.Console)
			t.Errorf("boot %d hangs; console:\n%s", i, tail(console, 25))
		}
	}
}
