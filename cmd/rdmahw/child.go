// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"io"
	"os"

	"purerdma/cmd/internal/hwcheck"
	"purerdma/cmd/internal/tool"
)

// check runs one check in this process and prints its result as JSON.
func (p *program) check(ctx context.Context, o *options, args []string, u *tool.UI) int {
	c, ok := hwcheck.Find(args[0])
	if !ok {
		u.Errorf("rdmahw: no check %q\n", args[0])
		return statusUsage
	}
	endWithParent()
	t, err := p.target(o)
	if err != nil {
		u.Fail(err)
		return statusUsage
	}
	return printJSON(u, c.Run(ctx, t))
}

// machine prints the description of the machine as JSON. It runs in a process of its own, because the files of a
// broken driver may block.
func (p *program) machine(_ context.Context, o *options, _ []string, u *tool.UI) int {
	endWithParent()
	t, err := p.target(o)
	if err != nil {
		u.Fail(err)
		return statusUsage
	}
	return printJSON(u, hwcheck.Describe(t))
}

func printJSON(u *tool.UI, v any) int {
	b, err := json.Marshal(v)
	if err == nil {
		err = u.Printf("%s\n", b)
	}
	if err != nil {
		u.Fail(err)
		return statusNoReport
	}
	return 0
}

// endWithParent ends the process when the standard input ends, which the parent holds open. Without a parent the
// standard input is a terminal or a file.
func endWithParent() {
	if info, err := os.Stdin.Stat(); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(statusNoReport)
	}()
}
