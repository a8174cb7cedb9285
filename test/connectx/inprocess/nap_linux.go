// SPDX-License-Identifier: Apache-2.0

package inprocess

import "syscall"

// nap sleeps for some 70 microseconds. time.Sleep would take a millisecond, because the
// scheduler waits for files meanwhile, by milliseconds. Who spins instead keeps a busy
// machine from running the others, and is kept from running himself when it matters.
func nap() { syscall.Nanosleep(&syscall.Timespec{Nsec: 20_000}, nil) }
