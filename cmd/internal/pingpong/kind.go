// SPDX-License-Identifier: Apache-2.0

// Package pingpong implements rdma-core's ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and
// ibv_srq_pingpong. In each, two programs send each other a message in turns, connected by
// package oob. They have the C programs' flags, output and protocol, so that either side may be
// a C program.
//
// Without -g the C programs can only connect on InfiniBand. The Go programs then choose a GID
// with verbs.Device.GIDFor.
package pingpong

import (
	"context"
	"io"

	"purerdma/cmd/internal/tool"
	"purerdma/verbs"
)

// Kind is one of the four programs.
type Kind struct {
	Name  string
	Type  verbs.QPType
	SRQ   bool // many QPs with shared receives
	flags []flag
	size  int // size of a message in bytes
}

// maxQPs is the number of QPs in the protocol of ibv_srq_pingpong, which runs with fewer.
const maxQPs = 256

// The programs.
var (
	RC = Kind{Name: "ibv_rc_pingpong", Type: verbs.RC, size: 4096, flags: rcFlags}
	UC = Kind{Name: "ibv_uc_pingpong", Type: verbs.UC, size: 4096, flags: ucFlags}
	UD = Kind{Name: "ibv_ud_pingpong", Type: verbs.UD, size: 1024, flags: udFlags}
	// SRQ has RC QPs.
	SRQ = Kind{Name: "ibv_srq_pingpong", Type: verbs.RC, SRQ: true, size: 4096, flags: srqFlags}
)

// statusFailed is the exit status of every failure.
const statusFailed = 1

// Main runs the program with the process's arguments.
func (k Kind) Main() { tool.Main(k.run) }

// run runs the program until ctx ends.
func (k Kind) run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	u := tool.NewUI(k.Name, stdout, stderr)
	opt, err := k.parse(u, args)
	if err != nil {
		return statusFailed
	}
	n := &node{Kind: k, opt: opt, u: u}
	err = n.run(ctx)
	if cerr := n.close(); cerr != nil && err == nil {
		err = n.fail(cerr, "Couldn't release context")
	}
	if werr := u.Failure(); werr != nil && err == nil {
		u.Fail(werr)
		err = werr
	}
	if err != nil {
		return statusFailed
	}
	return 0
}
