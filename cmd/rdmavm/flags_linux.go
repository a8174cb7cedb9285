// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/cmd/internal/version"
	"purerdma/test/microvm/arch"
	"purerdma/test/microvm/host"
	"purerdma/test/microvm/wire"
)

// flags holds the parsed command line.
type flags struct {
	host.Options
	prepare  bool
	terminal bool // the program runs on a terminal
}

// parse parses the command line.
func parse(args []string) (*flags, error) {
	f := &flags{}
	o := &f.Options
	fs := flag.NewFlagSet("rdmavm", flag.ContinueOnError)
	fs.Usage = func() {}
	fs.SetOutput(io.Discard)
	fs.StringVar(&o.Kernel, "kernel", "6.1", "kernel `series`")
	o.Arch = arch.AMD64
	fs.Func("arch", "processor `architecture`: amd64 (default) or arm64 (emulated)", func(s string) (err error) {
		o.Arch, err = arch.Find(s)
		return err
	})
	fs.StringVar(&o.Driver, "driver", "rxe", "RDMA `driver`: rxe, siw (built from source), mlx5 (on a software ConnectX), erdma (built, on a software eRDMA), or bnxt_re and bnxt_re-p7 (on a software NetXtreme-E)")
	fs.IntVar(&o.Hosts, "hosts", 1, "`number` of RDMA devices: 1, or 2 with a wire between them")
	fs.BoolVar(&o.VMs, "vms", false, "with -hosts 2: two VMs, the program starts in each")
	fs.StringVar(&o.Root, "root", wire.RootOverlay, "root `directory`: host, or none, which contains only the program")
	names := func(to *[]string) func(string) error {
		return func(s string) error {
			*to = append(*to, strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })...)
			return nil
		}
	}
	fs.Func("packages", "Debian `packages`, separated by commas, to unpack for the guest", names(&o.Packages))
	fs.StringVar(&o.Release, "release", "", "`name` of the Debian release of the packages, such as trixie or sid (default this machine's)")
	fs.Func("modules", "additional kernel `modules`, separated by commas, each with its parameters", func(s string) error {
		modules, err := parseModules(s)
		o.Modules = append(o.Modules, modules...)
		return err
	})
	fs.Func("share", "`directory` that the guest may write to; repeatable", func(s string) error {
		dir, err := filepath.Abs(s)
		o.Shares = append(o.Shares, dir)
		return err
	})
	list := fs.String("list", "", "run the commands in `file` (- is stdin) in one boot, see below")
	fs.StringVar(&o.Trace, "trace", "", "write a trace of modeled devices' operations to `file`")
	fs.StringVar(&o.Append, "append", "", "additional kernel `parameters`")
	fs.IntVar(&o.Memory, "memory", 1024, "the guest's memory in `MB`")
	fs.IntVar(&o.CPUs, "cpus", 2, "the guest's `number` of processors")
	fs.DurationVar(&o.Timeout, "timeout", 0, "time limit of each program, 0 for none (default 10m, or a minute more than -test.timeout)")
	fs.BoolVar(&f.terminal, "t", false, "run the program on a terminal (default for a shell)")
	fs.BoolVar(&o.Verbose, "v", false, "show the progress of the boot and the kernel's log")
	fs.BoolVar(&f.prepare, "prepare", false, "only download and build the newest version of everything that a run needs")
	version.Flag(fs)
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		usage(fs, os.Stdout)
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("%w (rdmavm -h lists the flags)", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	switch args := fs.Args(); {
	case f.prepare:
	case *list != "":
		if len(args) > 0 {
			return nil, fmt.Errorf("-list: unexpected program %q", args[0])
		}
		if o.Commands, err = readList(*list, dir); err != nil {
			return nil, err
		}
		o.Headers = true
	case len(args) > 0:
		o.Commands = []wire.Command{{Dir: dir, Args: args, Env: os.Environ()}}
	default:
		if o.Root == wire.RootNone {
			return nil, errors.New("-root none: missing program (the root contains no shell)")
		}
		f.terminal = isTerminal(os.Stdin)
		o.Commands = []wire.Command{{Dir: dir, Args: []string{shell()}, Env: os.Environ()}}
	}
	if !isSet(fs, "timeout") {
		o.Timeout = defaultTimeout(o.Commands, f.terminal)
	}
	return f, nil
}

// usage prints the short manual.
func usage(fs *flag.FlagSet, w io.Writer) {
	fs.SetOutput(w)
	fmt.Fprint(w, usageHead)
	fs.PrintDefaults()
	fmt.Fprint(w, usageTail)
}

func isSet(fs *flag.FlagSet, name string) bool {
	set := false
	fs.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// defaultTimeout exceeds the timeout of test binaries, because they end themselves with a
// better report. A program on a terminal has no limit.
func defaultTimeout(commands []wire.Command, terminal bool) time.Duration {
	limit := 10 * time.Minute
	for _, c := range commands {
		for _, a := range c.Args[1:] {
			v, ok := strings.CutPrefix(strings.TrimPrefix(a, "-"), "test.timeout=")
			if !ok {
				v, ok = strings.CutPrefix(a, "--test.timeout=")
			}
			if d, err := time.ParseDuration(v); ok && err == nil {
				if d == 0 {
					return 0
				}
				limit = max(limit, d+time.Minute)
			}
		}
	}
	if terminal {
		return 0
	}
	return limit
}

// shell returns the user's shell.
func shell() string {
	for _, s := range []string{os.Getenv("SHELL"), "/bin/bash"} {
		if unix.Access(s, unix.X_OK) == nil {
			return s
		}
	}
	return "/bin/sh"
}
