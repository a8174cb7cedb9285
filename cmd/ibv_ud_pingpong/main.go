// SPDX-License-Identifier: Apache-2.0

// Ibv_ud_pingpong exchanges messages between two hosts. It has the flags, output and protocol
// of rdma-core's ibv_ud_pingpong, so that either side may be the C program. Package pingpong
// documents the differences.
package main

import "purerdma/cmd/internal/pingpong"

func main() { pingpong.UD.Main() }
