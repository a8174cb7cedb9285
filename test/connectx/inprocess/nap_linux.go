// SPDX-License-Identifier: Apache-2.0

package inprocess

import "syscall"

// nap sleeps for about 70 microseconds. time.Sleep would take a millisecond, because the scheduler waits for files
// in milliseconds. Spinning would take processor time from other programs on a busy machine, and the scheduler
// would then preempt the spinning goroutine at the wrong time.
func nap() { syscall.Nanosleep(&syscall.Timespec{Nsec: 20_000}, nil) }
