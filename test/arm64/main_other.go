// SPDX-License-Identifier: Apache-2.0

//go:build !linux

// Command arm64 runs programs of Linux, on Linux.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "arm64: this is not Linux")
	os.Exit(1)
}
