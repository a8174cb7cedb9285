// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "rdmavm: needs Linux: it boots virtual machines with the kernel's RDMA drivers")
	os.Exit(125)
}
