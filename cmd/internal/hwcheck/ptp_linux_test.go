// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestPTP opens files that are no clock.
func TestPTP(t *testing.T) {
	if got := ptpClock(3); got != -29 { // (~3 << 3) | 3
		t.Errorf("ptpClock(3) = %d, want -29", got)
	}
	dir := t.TempDir()
	if f, err := openPTP(dir); err == nil {
		t.Errorf("openPTP(no clock) = %v, want an error", f.Name())
	}
	if err := os.Mkdir(filepath.Join(dir, "ptp99999"), 0o700); err != nil {
		t.Fatalf("os.Mkdir: %v", err)
	}
	if f, err := openPTP(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("openPTP(ptp99999) = %v, %v, want %v", f, err, os.ErrNotExist)
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatalf("os.Open: %v", err)
	}
	defer f.Close()
	if at, err := ptpTime(f); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("ptpTime(%s) = %v, %v, want %v", f.Name(), at, err, syscall.EINVAL)
	}
}

// TestOutside compares times with an interval.
func TestOutside(t *testing.T) {
	from := time.Unix(100, 0)
	to := from.Add(time.Second)
	for at, want := range map[time.Time]time.Duration{
		from.Add(-5): -5, from: 0, from.Add(7): 0, to: 0, to.Add(9): 9,
	} {
		if got := outside(at, from, to); got != want {
			t.Errorf("outside(%v, %v, %v) = %v, want %v", at, from, to, got, want)
		}
	}
}
