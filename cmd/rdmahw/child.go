// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"io"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"

	"purerdma/cmd/internal/hwcheck"
	"purerdma/cmd/internal/tool"
	"purerdma/internal/hwreport"
)

// check runs one check in this process and prints its result as JSON.
func (p *program) check(ctx context.Context, o *options, args []string, u *tool.UI) int {
	c, ok := hwcheck.Find(args[0])
	if !ok {
		u.Errorf("rdmahw: no check %q\n", args[0])
		return statusUsage
	}
	var running atomic.Pointer[hwcheck.Target]
	endWithParent(func() {
		if t := running.Load(); t != nil {
			t.SaveRecording()
		}
	})
	t, err := p.completeTarget(o)
	if err != nil {
		u.Fail(err)
		return statusUsage
	}
	t.Files, t.Record = o.files, o.record
	running.Store(t)
	return printJSON(u, c.Run(ctx, t))
}

// chosen is the output of the command machine. The device is Machine.Device.
type chosen struct {
	Machine hwreport.Machine `json:"machine"`
	Addr    netip.Addr       `json:"addr"` // zero if the port's network interface has none
}

// machine chooses the device and the address, and prints them with the description of the machine as JSON. It runs in a
// process of its own, because the open of a device and the files of a broken driver may block.
func (p *program) machine(_ context.Context, o *options, _ []string, u *tool.UI) int {
	endWithParent(func() {})
	t, err := p.completeTarget(o)
	if err != nil {
		u.Fail(err)
		return statusUsage
	}
	return printJSON(u, chosen{hwcheck.Describe(t), t.Addr})
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

// endWithParent ends the process when the standard input ends, which the parent holds open. The parent closes it if the
// time of the process is over. Then save runs first, and the stacks of all goroutines are written. Without a parent
// the standard input is a terminal or a file.
func endWithParent(save func()) {
	if info, err := os.Stdin.Stat(); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		save()
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			self.Signal(syscall.SIGQUIT)
		}
	}()
}
