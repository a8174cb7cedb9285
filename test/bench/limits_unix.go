// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// maxFiles is the limit of open files for this process and its children. It allows two per connection.
const maxFiles = 1 << 17

// raiseLimits raises the limits of open files and of registered memory. Some drivers also apply the memory
// limit to root.
func raiseLimits() error {
	for _, l := range []struct {
		what  string
		limit int
		to    uint64
	}{{"open files", unix.RLIMIT_NOFILE, maxFiles}, {"bytes of locked memory", unix.RLIMIT_MEMLOCK, unix.RLIM_INFINITY}} {
		if err := unix.Setrlimit(l.limit, &unix.Rlimit{Cur: l.to, Max: l.to}); err != nil {
			return fmt.Errorf("%d %s: %w", l.to, l.what, err)
		}
	}
	return nil
}
