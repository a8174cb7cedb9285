// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package inprocess

import "time"

// nap sleeps for a short while.
func nap() { time.Sleep(20 * time.Microsecond) }
