// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"fmt"
	"os"
)

// Threads returns the number of threads of this process.
func Threads() (int, error) { return ThreadsOf(os.Getpid()) }

// ThreadsOf returns the number of threads of a process.
func ThreadsOf(pid int) (int, error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return len(tasks), err
}
