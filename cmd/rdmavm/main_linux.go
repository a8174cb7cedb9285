// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"purerdma/test/microvm/guest"
	"purerdma/test/microvm/host"
	"purerdma/test/microvm/wire"
)

func main() {
	guest.Main() // does not return in a virtual machine
	os.Exit(run())
}

func run() int {
	o := &host.Options{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	fs := flag.NewFlagSet("rdmavm", flag.ExitOnError)
	fs.StringVar(&o.Kernel, "kernel", "", "kernel `series`")
	fs.StringVar(&o.Driver, "driver", "rxe", "RDMA `driver`")
	fs.IntVar(&o.Hosts, "hosts", 1, "number of RDMA `hosts`, 1 or 2")
	fs.BoolVar(&o.VMs, "vms", false, "with -hosts 2: two VMs")
	fs.StringVar(&o.Root, "root", wire.RootOverlay, "`root` directory: host or none")
	packages := fs.String("packages", "", "Debian `packages` to put into the guest, separated by commas")
	fs.Func("share", "a `directory` that the guest may write to", func(s string) error { o.Shares = append(o.Shares, s); return nil })
	fs.IntVar(&o.Memory, "memory", 1024, "`MB` of memory")
	fs.IntVar(&o.CPUs, "cpus", 2, "`number` of processors")
	fs.DurationVar(&o.Timeout, "timeout", 10*time.Minute, "how long the program may run")
	fs.BoolVar(&o.Verbose, "v", false, "show the boot and the kernel's log")
	prepare := fs.Bool("prepare", false, "download and build what a run takes, and look for newer versions")
	fs.Parse(os.Args[1:])
	if *packages != "" {
		o.Packages = strings.Split(*packages, ",")
	}
	ctx := context.Background()
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "rdmavm:", err)
		return host.Status
	}
	if *prepare {
		o.Refresh = true
		if err := host.Prepare(ctx, o); err != nil {
			return fail(err)
		}
		return 0
	}
	wd, err := os.Getwd()
	if err != nil {
		return fail(err)
	}
	args := fs.Args()
	if len(args) == 0 {
		return fail(fmt.Errorf("no program given"))
	}
	o.Commands = []wire.Command{{Dir: wd, Args: args, Env: os.Environ()}}
	status, err := host.Run(ctx, o)
	if err != nil {
		return fail(err)
	}
	return status
}
