// SPDX-License-Identifier: Apache-2.0

// Package clock reads the monotonic clock as a number, which takes half the time of time.Now and a
// third of its memory.
package clock

import "time"

var start = time.Now()

// Now returns the nanoseconds of the monotonic clock since the start of the process. It is never 0.
func Now() int64 { return int64(time.Since(start)) + 1 }

// Time returns the time of a result of Now, with its reading of the monotonic clock.
func Time(now int64) time.Time { return start.Add(time.Duration(now - 1)) }
