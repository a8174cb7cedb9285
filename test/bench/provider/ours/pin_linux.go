// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// pin keeps the goroutine on one processor.
func pin(cpu int) error {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}
