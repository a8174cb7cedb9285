// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import "io"

// terminalSize returns nil.
func terminalSize(io.Writer) func() (rows, columns int) { return nil }
