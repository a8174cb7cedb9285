// SPDX-License-Identifier: Apache-2.0

// Ibv_rc_pingpong sends messages to and fro between two hosts: the
// ibv_rc_pingpong of rdma-core, with its flags, output and protocol, so that
// either side may be that program. See package pingpong for what differs.
package main

import "purerdma/cmd/internal/pingpong"

func main() { pingpong.RC.Main() }
