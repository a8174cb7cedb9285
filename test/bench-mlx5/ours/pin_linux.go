// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// pin runs the goroutine on one processor from now on.
func pin(cpu int) error {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}
