// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package qemu finds or downloads QEMU, tests whether KVM works with it, and runs virtual
// machines.
package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"purerdma/test/microvm/apt"
	"purerdma/test/microvm/arch"
	"purerdma/test/microvm/cache"
)

// machine is the architecture of the QEMU that Get downloads.
var machine = arch.AMD64

// A QEMU is an executable emulator.
type QEMU struct {
	argv []string // command, without the options of a VM
	env  []string // in addition to the process's environment
	ID   string   // changes when the program changes
	Arch *arch.Arch
}

// Get returns a QEMU for machines of an architecture: the QEMU in RDMAVM_QEMU, or the QEMU on PATH, or one from Debian's packages.
// Packages are unpacked in the cache and not installed. With vfioUser the QEMU must have
// vfio-user-pci, which QEMU has since 10.1. Get then skips a QEMU on PATH without it.
func Get(ctx context.Context, c *cache.Cache, of *arch.Arch, vfioUser, refresh bool, progress io.Writer) (*QEMU, error) {
	if p := os.Getenv("RDMAVM_QEMU"); p != "" {
		path, err := exec.LookPath(p)
		if err != nil {
			return nil, fmt.Errorf("RDMAVM_QEMU=%s: %w", p, err)
		}
		q, err := installed(path, of)
		if err == nil && vfioUser && !q.hasVFIOUser(ctx) {
			err = fmt.Errorf("RDMAVM_QEMU=%s: no device %s (needs QEMU 10.1 or newer)", p, vfioUserPCI)
		}
		return q, err
	}
	if path, err := exec.LookPath(of.Emulator); err == nil {
		q, err := installed(path, of)
		if err != nil || !vfioUser || q.hasVFIOUser(ctx) {
			return q, err
		}
	}
	src := source{release: apt.HostRelease()}
	if src.release == "" {
		src.release = "bookworm"
	}
	if vfioUser {
		src = source{release: "trixie", backports: true}
	}
	dir, err := c.Get("qemu"+of.Suffix(), src.name(), refresh, func() (string, func(string) error, error) {
		a, err := src.open(ctx, c, refresh, progress)
		if errors.Is(err, apt.ErrNotDebian) {
			err = fmt.Errorf("%w (install %s from your distribution, or set RDMAVM_QEMU)", err, of.Emulator)
		}
		if err != nil {
			return "", nil, err
		}
		version, err := a.Version(ctx, of.Package)
		if err != nil {
			return "", nil, err
		}
		return src.release + "_" + version, func(dst string) error {
			return a.UnpackAll(ctx, dst, wanted, of.Package)
		}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("get QEMU: %w", err)
	}
	return unpacked(dir, of)
}

// A source is a Debian suite with a package of QEMU.
type source struct {
	release   string
	backports bool // whether to use the release's backports
}

// name returns the name of the source's cache entry.
func (s source) name() string {
	if s.backports {
		return s.release + "-backports"
	}
	return s.release
}

func (s source) open(ctx context.Context, c *cache.Cache, refresh bool, progress io.Writer) (*apt.Apt, error) {
	a, err := apt.Open(ctx, c.Path("apt", s.release), machine, s.release, s.backports, refresh, progress)
	if err == nil && s.backports {
		a = a.From(s.name())
	}
	return a, err
}

// vfioUserPCI is a device whose registers are implemented by another process.
const vfioUserPCI = "vfio-user-pci"

// hasVFIOUser reports whether the program has that device.
func (q *QEMU) hasVFIOUser(ctx context.Context) bool {
	cmd := exec.CommandContext(ctx, q.argv[0], append(q.argv[1:len(q.argv):len(q.argv)], "-device", vfioUserPCI+",help")...)
	cmd.Env = append(os.Environ(), q.env...)
	return cmd.Run() == nil
}

// installed returns a QEMU that finds its files itself.
func installed(path string, of *arch.Arch) (*QEMU, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return &QEMU{Arch: of, argv: []string{path}, ID: fmt.Sprintf("%s %d %d", path, st.Size(), st.ModTime().UnixNano())}, nil
}

// unpacked returns the QEMU in dir. It runs with its own dynamic linker and libraries,
// independently of the machine's.
func unpacked(dir string, of *arch.Arch) (*QEMU, error) {
	lib := filepath.Join(dir, "usr/lib", machine.Triplet)
	q := &QEMU{
		Arch: of,
		argv: []string{
			filepath.Join(lib, machine.Linker), "--library-path", lib,
			filepath.Join(dir, "usr/bin", of.Emulator),
		},
		env: []string{"QEMU_MODULE_DIR=" + filepath.Join(lib, "qemu")},
		ID:  filepath.Base(dir),
	}
	for _, data := range []string{"usr/share/qemu", "usr/share/seabios"} {
		q.argv = append(q.argv, "-L", filepath.Join(dir, data))
	}
	for _, p := range []string{q.argv[0], q.argv[3]} {
		if _, err := os.Stat(p); err != nil {
			return nil, fmt.Errorf("QEMU in the cache is incomplete: %w (remove %s and try again)", err, dir)
		}
	}
	return q, nil
}

// wanted excludes documentation and graphics.
func wanted(name string) bool {
	for _, p := range []string{"usr/share/doc/", "usr/share/man/", "usr/share/locale/", "usr/share/icons/"} {
		if strings.HasPrefix(name, p) {
			return false
		}
	}
	return true
}
