// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"purerdma/test/microvm/kernel"
	"purerdma/test/microvm/qemu"
	"purerdma/test/microvm/share"
	"purerdma/test/microvm/wire"
)

// machine creates virtual machine number i with its initramfs, which contains the configuration
// for the guest.
func (o *Options) machine(p *parts, dir string, i int) (*qemu.Machine, error) {
	cfg := &wire.Config{
		Driver: o.Driver, PCI: p.driver.Model != nil, Modules: p.modules, Params: p.params, Ends: o.Hosts, VMs: 1, Host: i,
		Root: o.Root, Kernel: "kernel", Commands: o.Commands, Timeout: o.Timeout,
		TTY: o.TTY, Rows: o.Rows, Cols: o.Cols,
	}
	m := &qemu.Machine{
		Arch: o.Arch, Accel: p.accel, Kernel: p.kernel.Image, Memory: o.Memory, CPUs: o.CPUs, Nodes: o.Nodes,
		Initrd:  filepath.Join(dir, fmt.Sprintf("initrd%d", i)),
		Console: filepath.Join(dir, fmt.Sprintf("console%d", i)),
		Append:  strings.TrimSpace("quiet " + o.Append),
	}
	if p.hcas != nil {
		m.WaitForWrites = p.driver.Model.WaitForWrites
		if m.VFIOUser = p.hcas.sockets; o.VMs {
			m.VFIOUser = m.VFIOUser[i : i+1]
		}
	}
	if o.VMs {
		cfg.VMs = o.Hosts
	}
	for n := range o.Hosts {
		if o.hasCard(p.driver, i, n) {
			m.Nets = append(m.Nets, card(dir, n))
		}
	}
	m.Dirs = append(m.Dirs, qemu.Dir{Tag: cfg.Kernel, Path: p.kernel.Modules, ReadOnly: true})
	layer := func(tag, path string) {
		m.Dirs = append(m.Dirs, qemu.Dir{Tag: tag, Path: path, ReadOnly: true})
		cfg.Layers = append(cfg.Layers, tag)
	}
	if p.packages != "" {
		layer("packages", p.packages)
	}
	for _, d := range o.Shares {
		switch real, ok := realDir(d); {
		case !ok:
			return nil, fmt.Errorf("-share %s: no such directory", d)
		case real == "/":
			return nil, errors.New("-share /: the root is read-only for the guest (share directories in it)")
		}
	}
	var program string
	var shares []string
	if o.Root == wire.RootNone {
		var err error
		if program, err = o.program(); err != nil {
			return nil, err
		}
		cfg.Program = program
		shares = share.Dirs(nil, o.Shares, realDir)
	} else {
		layer("host", "/")
		shares = share.Dirs(o.Commands, o.Shares, realDir)
	}
	for n, d := range shares {
		tag := fmt.Sprintf("share%d", n)
		m.Dirs = append(m.Dirs, qemu.Dir{Tag: tag, Path: d})
		cfg.Shares = append(cfg.Shares, wire.Share{Tag: tag, Path: d})
	}
	if len(m.Dirs) > qemu.MaxDirs {
		return nil, fmt.Errorf("cannot share %d directories with the guest, at most %d (use -share with a common parent)", len(m.Dirs), qemu.MaxDirs)
	}
	if err := o.writeInitrd(m.Initrd, p.image, cfg, program); err != nil {
		return nil, fmt.Errorf("write the initramfs: %w", err)
	}
	return m, nil
}

// hasCard reports whether virtual machine i has a network card for host n. The network device of
// a host is a network card if the host's driver takes one, or if it is the end of a cable between
// two virtual machines.
func (o *Options) hasCard(d kernel.Driver, i, n int) bool {
	if d.Model != nil && d.Model.NetDriver != "" {
		return false
	}
	return o.VMs && n == i || !o.VMs && d.Model != nil
}

// card returns the network card of a host. Its cable leads to the other host.
func card(dir string, n int) qemu.Net {
	m := mac(n)
	return qemu.Net{
		Local:  filepath.Join(dir, fmt.Sprintf("net%d", n)),
		Remote: filepath.Join(dir, fmt.Sprintf("net%d", 1-n)),
		MAC:    net.HardwareAddr(m[:]).String(),
	}
}

// mac returns the MAC address of a host, if its network device is a network card of a virtual
// machine.
func mac(i int) [6]byte { return [6]byte{0x52, 0x54, 0, 0, 0, byte(i + 1)} }

// program returns the absolute path of the program for an empty root, or "" if it can only be
// in the packages.
func (o *Options) program() (string, error) {
	c := &o.Commands[0]
	path, err := exec.LookPath(c.Args[0])
	if err != nil && len(o.Packages) > 0 {
		return "", nil
	}
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", err
	}
	path, err = filepath.Abs(path)
	c.Args[0] = path
	return path, err
}

// realDir returns the path of a directory without symbolic links, or false if it is no
// directory.
func realDir(path string) (string, bool) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", false
	}
	st, err := os.Stat(path)
	return path, err == nil && st.IsDir()
}

// socketPair returns the host's and QEMU's end of the channel.
func socketPair() (mine, its *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "port"), os.NewFile(uintptr(fds[1]), "port"), nil
}
