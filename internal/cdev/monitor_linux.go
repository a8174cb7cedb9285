// SPDX-License-Identifier: Apache-2.0

package cdev

import "golang.org/x/sys/unix"

// wakeMonitor makes an ordinary system call, which wakes the monitor thread.
func wakeMonitor() { unix.Syscall(unix.SYS_GETPID, 0, 0, 0) }
