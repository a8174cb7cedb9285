// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"testing"

	"golang.org/x/sys/unix"
)

// AnyMemory lifts RLIMIT_MEMLOCK for the rest of a test, and for the processes that it starts. siw before
// Linux 6.8 also applies the limit to root.
func AnyMemory(t testing.TB) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, &old); err != nil {
		t.Fatalf("unix.Prlimit: %v", err)
	}
	t.Cleanup(func() { unix.Prlimit(0, unix.RLIMIT_MEMLOCK, &old, nil) })
}
