// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package host is rdmavm on the host: it puts a virtual machine together
// from a kernel, an initramfs and directories of the host, runs commands in
// it and passes on their input, output and exit status.
package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"purerdma/test/microvm/wire"
)

// Options say what to run and where.
type Options struct {
	Kernel   string // a series: 6.1, ...
	Driver   string // rxe, siw or mlx5
	Hosts    int    // RDMA devices connected by a wire, or one
	VMs      bool   // with two hosts: each is a VM
	Root     string // wire.RootOverlay or wire.RootNone
	Packages []string
	Release  string   // of Debian, whose packages they are; "": this machine's
	Modules  []string // of the kernel, beside those of RDMA
	Shares   []string
	Trace    string // file for what the software ConnectX sees and does
	Append   string // kernel parameters besides
	Memory   int    // MB
	CPUs     int
	Timeout  time.Duration
	Verbose  bool
	TTY      bool // the program runs on a terminal, of this size
	Rows     uint16
	Cols     uint16
	Headers  bool // announce each command
	Refresh  bool // look for newer packages
	Commands []wire.Command

	Stdin          *os.File // nil: none
	Stdout, Stderr io.Writer
	Signals        <-chan os.Signal // for the program
	Started        func(*wire.Conn) // called when a program starts
}

// Status is the exit status for what rdmavm itself could not do.
const Status = 125

// check refuses options that contradict each other.
func (o *Options) check() error {
	switch {
	case o.Hosts != 1 && o.Hosts != 2:
		return fmt.Errorf("-hosts %d: it is 1 or 2", o.Hosts)
	case o.VMs && o.Hosts != 2:
		return errors.New("-vms: needs -hosts 2")
	case o.Release != "" && (len(o.Packages) == 0 || strings.Trim(o.Release, "abcdefghijklmnopqrstuvwxyz") != ""):
		return fmt.Errorf("-release %s: it is the name of a release of Debian, for -packages", o.Release)
	case o.Trace != "" && o.Driver != "mlx5":
		return fmt.Errorf("-trace: is for -driver mlx5, whose devices are models, not for %s", o.Driver)
	case o.Root != wire.RootOverlay && o.Root != wire.RootNone:
		return fmt.Errorf("-root %s: it is %s or %s", o.Root, wire.RootOverlay, wire.RootNone)
	case o.Root == wire.RootNone && len(o.Commands) > 1:
		return errors.New("-root none: holds one program; run several with several calls")
	case o.Memory < 128:
		return fmt.Errorf("-memory %d: the guest needs 128 (MB) or more", o.Memory)
	case o.CPUs < 1 || o.CPUs > 255:
		return fmt.Errorf("-cpus %d: it is 1 to 255", o.CPUs)
	}
	return nil
}
