// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "time"

func monotonic() (time.Time, int64) { return time.Now(), 0 }
