// SPDX-License-Identifier: Apache-2.0

// Ibv_ud_pingpong sends messages to and fro between two hosts: the
// ibv_ud_pingpong of rdma-core, with its flags, output and protocol, so that
// either side may be that program. See package pingpong for what differs.
package main

import "purerdma/cmd/internal/pingpong"

func main() { pingpong.UD.Main() }
