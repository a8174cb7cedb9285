// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"fmt"
	"os"
)

// Threads is how many this process has.
func Threads() (int, error) { return ThreadsOf(os.Getpid()) }

// ThreadsOf is how many a process has.
func ThreadsOf(pid int) (int, error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return len(tasks), err
}
