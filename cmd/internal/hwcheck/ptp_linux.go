// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// notePTP compares the wall clock of completions with the PTP clock of the device, which must be the same clock. The result is evidence
// only, because no model shows which drivers and settings keep the two equal.
func (t *trial) notePTP(next func() stamp) {
	clock, err := openPTP(filepath.Join("/sys/class/infiniband", t.target.Device, "device", "ptp"))
	if err != nil {
		t.note("no PTP clock: %v", err)
		return
	}
	defer clock.Close()
	before, err := ptpTime(clock)
	s := next()
	after, err2 := ptpTime(clock)
	if err != nil || err2 != nil {
		t.note("no PTP clock: %v, %v", err, err2)
		return
	}
	t.note("wall clock: %v outside of the time of the PTP clock, which passed %v meanwhile", outside(time.Unix(0, int64(s.device)), before, after), after.Sub(before))
}

// openPTP opens the first clock that a directory of sysfs names.
func openPTP(dir string) (*os.File, error) {
	names, err := filepath.Glob(filepath.Join(dir, "ptp[0-9]*"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no file in %s", dir)
	}
	return os.Open(filepath.Join("/dev", filepath.Base(names[0])))
}

// ptpTime returns the time of an open PTP clock.
func ptpTime(f *os.File) (time.Time, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(ptpClock(f.Fd()), &ts); err != nil {
		return time.Time{}, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return time.Unix(ts.Unix()), nil
}

// ptpClock returns the ID of the clock of a file descriptor (FD_TO_CLOCKID of the kernel's tools).
func ptpClock(fd uintptr) int32 { return int32(^fd<<3 | 3) }
