// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"fmt"
	"os"

	"purerdma/cmd/internal/version"
)

func main() {
	if version.Requested(os.Args[1:]) {
		if err := version.Print(os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "rdmavm:", err)
			os.Exit(125)
		}
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "rdmavm: needs Linux")
	os.Exit(125)
}
