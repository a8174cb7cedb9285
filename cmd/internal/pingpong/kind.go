// SPDX-License-Identifier: Apache-2.0

// Package pingpong is rdma-core's ibv_rc_pingpong, ibv_uc_pingpong,
// ibv_ud_pingpong and ibv_srq_pingpong: two programs that send each other a message
// in turns, connected by package oob. They have the C programs' flags, output and
// protocol, so that either side may be one of those.
//
// Without -g the C programs can only connect on InfiniBand. These then choose a
// GID, as verbs.Device.GIDFor does.
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
	SRQ   bool // many QPs that share their receives
	flags []flag
	size  int // bytes of a message
}

// maxQPs is how many QPs ibv_srq_pingpong's protocol has; it runs with fewer.
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

// run is the program. It ends with ctx.
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
