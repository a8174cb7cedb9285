// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"syscall"
)

// maxFiles is the limit of open files for this process and its children: enough
// for two per connection.
const maxFiles = 1 << 17

// moreFiles raises the limit, which root may.
func moreFiles() error {
	limit := syscall.Rlimit{Cur: maxFiles, Max: maxFiles}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("%d open files: %w", maxFiles, err)
	}
	return nil
}
