// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package trace

import "syscall"

func errnoName(syscall.Errno) string { return "" }
