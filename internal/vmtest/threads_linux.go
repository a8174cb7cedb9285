// SPDX-License-Identifier: Apache-2.0

package vmtest

import "os"

// Threads is how many this process has.
func Threads() (int, error) {
	tasks, err := os.ReadDir("/proc/self/task")
	return len(tasks), err
}
