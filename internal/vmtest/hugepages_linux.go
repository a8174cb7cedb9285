// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// SetHugePages reserves huge pages as an administrator, until the test ends. The kernel reserves fewer if its
// memory is fragmented. SetHugePages then has it free and move pages.
func SetHugePages(t *testing.T, n int) {
	t.Helper()
	const setting = "/proc/sys/vm/nr_hugepages"
	old, err := os.ReadFile(setting)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	t.Cleanup(func() { os.WriteFile(setting, old, 0) })
	set := func(file string, n int) {
		t.Helper()
		if err := os.WriteFile(file, fmt.Append(nil, n), 0); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		set(setting, n)
		have, err := os.ReadFile(setting)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		if strings.TrimSpace(string(have)) == strconv.Itoa(n) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("os.ReadFile(%s) = %q after %d were requested, want %[3]d", setting, have, n)
		}
		set("/proc/sys/vm/drop_caches", 3)
		set("/proc/sys/vm/compact_memory", 1)
	}
}
