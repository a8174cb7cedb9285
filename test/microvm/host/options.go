// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package host implements rdmavm on the host. It creates a virtual machine from a kernel, an
// initramfs and directories of the host, and runs commands in it. It passes on their input,
// output and exit status.
package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"purerdma/test/microvm/arch"
	"purerdma/test/microvm/kernel"
	"purerdma/test/microvm/wire"
)

// Options selects the commands and their environment.
type Options struct {
	Arch     *arch.Arch // of the guest
	Kernel   string     // a series: 6.1, ...
	Driver   string     // a driver: rxe, ...
	Hosts    int        // number of RDMA devices, 2 of them connected by a wire
	VMs      bool       // with two hosts, each is a VM
	Root     string     // wire.RootOverlay or wire.RootNone
	Packages []string
	Release  string   // Debian release of the packages, "" for this machine's.
	Modules  []string // additional modules of the kernel, each with its parameters: "bonding max_bonds=3"
	Shares   []string
	Trace    string // file for the trace of modeled devices.
	Append   string // additional kernel parameters.
	Memory   int    // in MB
	CPUs     int
	Nodes    int // NUMA nodes, 0 for a machine without NUMA
	Timeout  time.Duration
	Verbose  bool
	TTY      bool // whether the program runs on a terminal, of this size
	Rows     uint16
	Cols     uint16
	Headers  bool // announce each command
	Refresh  bool // check for newer packages
	Commands []wire.Command

	Stdin          *os.File // nil for none
	Stdout, Stderr io.Writer
	Signals        <-chan os.Signal // signals for the program
	Started        func(*wire.Conn) // called when a program starts
}

// modeled reports whether rdmavm models the devices of a driver.
func modeled(driver string) bool {
	d, err := kernel.FindDriver(driver)
	return err == nil && d.Model != nil
}

// Status is the exit status for a failure of rdmavm itself.
const Status = 125

// maxNodes bounds the NUMA nodes. Each has memory of its own.
const maxNodes = 8

// check rejects contradictory options.
func (o *Options) check() error {
	switch {
	case o.Hosts != 1 && o.Hosts != 2:
		return fmt.Errorf("-hosts %d: want 1 or 2", o.Hosts)
	case o.VMs && o.Hosts != 2:
		return errors.New("-vms: needs -hosts 2")
	case o.Release != "" && (len(o.Packages) == 0 || strings.Trim(o.Release, "abcdefghijklmnopqrstuvwxyz") != ""):
		return fmt.Errorf("-release %s: want the name of a Debian release, with -packages", o.Release)
	case o.Trace != "" && !modeled(o.Driver):
		return fmt.Errorf("-trace: -driver %s is not supported: its devices are not modeled", o.Driver)
	case o.Root != wire.RootOverlay && o.Root != wire.RootNone:
		return fmt.Errorf("-root %s: want %s or %s", o.Root, wire.RootOverlay, wire.RootNone)
	case o.Root == wire.RootNone && len(o.Commands) > 1:
		return errors.New("-root none: several programs are not supported (run rdmavm for each)")
	case o.Memory < 128:
		return fmt.Errorf("-memory %d: want at least 128 (MB)", o.Memory)
	case o.CPUs < 1 || o.CPUs > 255:
		return fmt.Errorf("-cpus %d: want 1 to 255", o.CPUs)
	case o.Nodes < 0 || o.Nodes > o.CPUs || o.Nodes > maxNodes:
		return fmt.Errorf("-numa %d: want 0 to %d, and a processor for each node", o.Nodes, maxNodes)
	}
	return nil
}
