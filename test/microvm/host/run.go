// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"purerdma/test/microvm/cache"
	"purerdma/test/microvm/kernel"
	"purerdma/test/microvm/qemu"
	"purerdma/test/microvm/share"
	"purerdma/test/microvm/wire"
)

// parts are what a virtual machine is put together from.
type parts struct {
	qemu     *qemu.QEMU
	accel    string
	kernel   *kernel.Kernel
	image    string // initramfs with the modules
	modules  []string
	packages string // directory of unpacked packages; "" is none
}

// Prepare downloads and builds whatever a run with these options takes.
func Prepare(ctx context.Context, o *Options) error {
	_, err := prepare(ctx, o)
	return setup(err)
}

// Run runs the commands and returns the exit status: that of the first
// command that failed. The error, if any, is one of rdmavm.
func Run(ctx context.Context, o *Options) (int, error) {
	if err := o.check(); err != nil {
		return Status, &SetupError{err}
	}
	p, err := prepare(ctx, o)
	if err != nil {
		return Status, setup(err)
	}
	unlock, err := lock(ctx, o.Stderr)
	if err != nil {
		return Status, setup(err)
	}
	defer unlock()
	dir, err := os.MkdirTemp("", "rdmavm-")
	if err != nil {
		return Status, setup(err)
	}
	defer os.RemoveAll(dir)
	return o.runVMs(ctx, p, dir)
}

func setup(err error) error {
	if err == nil {
		return nil
	}
	return &SetupError{err}
}

// prepare gets everything from the cache or from where it comes from.
func prepare(ctx context.Context, o *Options) (*parts, error) {
	series, err := kernel.Find(o.Kernel)
	if err != nil {
		return nil, err
	}
	driver, err := kernel.FindDriver(o.Driver)
	if err != nil {
		return nil, err
	}
	c, err := cache.Open(o.Stderr)
	if err != nil {
		return nil, err
	}
	p := &parts{accel: "tcg"}
	if p.qemu, err = qemu.Get(ctx, c, o.Refresh, o.Stderr); err != nil {
		return nil, err
	}
	if p.kernel, err = kernel.Get(ctx, c, series, o.Refresh, o.Stderr); err != nil {
		return nil, err
	}
	if p.modules, err = p.kernel.Paths(slices.Concat(kernel.Transport, kernel.RDMA(driver))); err != nil {
		return nil, err
	}
	if p.image, err = moduleImage(c, p.kernel, p.modules); err != nil {
		return nil, fmt.Errorf("making the image of modules: %w", err)
	}
	if len(o.Packages) > 0 {
		if p.packages, err = getPackages(ctx, c, o); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// machine makes the configuration of VM number i and the machine for it.
func (o *Options) machine(p *parts, dir string, i int) (*wire.Config, *qemu.Machine, error) {
	cfg := &wire.Config{
		Driver: o.Driver, Modules: p.modules, Ends: o.Hosts, VMs: 1, Host: i,
		Root: o.Root, Kernel: "kernel", Commands: o.Commands, Timeout: o.Timeout, TTY: o.TTY,
	}
	m := &qemu.Machine{
		Accel: p.accel, Kernel: p.kernel.Image, Memory: o.Memory, CPUs: o.CPUs,
		Initrd:  filepath.Join(dir, fmt.Sprintf("initrd%d", i)),
		Console: filepath.Join(dir, fmt.Sprintf("console%d", i)),
		Append:  "quiet",
	}
	m.Dirs = append(m.Dirs, qemu.Dir{Tag: cfg.Kernel, Path: p.kernel.Modules, ReadOnly: true})
	layer := func(tag, path string) {
		m.Dirs = append(m.Dirs, qemu.Dir{Tag: tag, Path: path, ReadOnly: true})
		cfg.Layers = append(cfg.Layers, tag)
	}
	if p.packages != "" {
		layer("packages", p.packages)
	}
	var program string
	shares := o.Shares
	if o.Root == wire.RootNone {
		var err error
		if program, err = o.program(); err != nil {
			return nil, nil, err
		}
		cfg.Program = program
	} else {
		layer("host", "/")
		shares = share.Dirs(o.Commands, o.Shares, isDir)
	}
	for n, d := range shares {
		tag := fmt.Sprintf("share%d", n)
		m.Dirs = append(m.Dirs, qemu.Dir{Tag: tag, Path: d})
		cfg.Shares = append(cfg.Shares, wire.Share{Tag: tag, Path: d})
	}
	// The bus has 32 slots, some of them taken.
	if len(m.Dirs) > 24 {
		return nil, nil, fmt.Errorf("%d directories to share with the guest, at most 24 can be: name a common parent with -share", len(m.Dirs))
	}
	return cfg, m, writeInitrd(m.Initrd, p.image, cfg, program)
}

// program returns the absolute path of the program for an empty root.
func (o *Options) program() (string, error) {
	c := &o.Commands[0]
	path, err := exec.LookPath(c.Args[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return "", err
	}
	path, err = filepath.Abs(path)
	c.Args[0] = path
	return path, err
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
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
