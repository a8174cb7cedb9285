// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command arm64 runs a program that was built for arm64, by QEMU's emulator of user
// programs where the machine is another one: "go test -exec". The emulator is the
// one on PATH, or comes from Debian's packages into the cache of the micro-VM, and is
// not installed.
//
// The emulator orders memory as the machine below it does. It shows that the
// program computes the same on arm64, not that its barriers are enough.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"purerdma/test/microvm/apt"
	"purerdma/test/microvm/arch"
	"purerdma/test/microvm/cache"
)

const program = "qemu-aarch64-static"

func main() {
	fmt.Fprintf(os.Stderr, "arm64: %v\n", run(os.Args[1:]))
	os.Exit(1)
}

// run becomes the program. It returns only if that fails, and why.
func run(args []string) error {
	if len(args) == 0 {
		return errors.New("no program to run: arm64 program [argument]")
	}
	if runtime.GOARCH != "arm64" {
		emulator, err := find(context.Background())
		if err != nil {
			return err
		}
		args = append([]string{emulator}, args...)
	}
	return fmt.Errorf("%s: %w", args[0], syscall.Exec(args[0], args, os.Environ()))
}

// find returns the emulator.
func find(ctx context.Context) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	c, err := cache.Open(os.Stderr)
	if err != nil {
		return "", err
	}
	release := apt.HostRelease()
	if release == "" {
		release = "bookworm"
	}
	dir, err := c.Get("qemu-user", release, false, func() (string, func(string) error, error) {
		a, err := apt.Open(ctx, c.Path("apt", release), arch.AMD64, release, false, false, os.Stderr)
		if errors.Is(err, apt.ErrNotDebian) {
			err = fmt.Errorf("%w; install %s by your distribution's means", err, program)
		}
		if err != nil {
			return "", nil, err
		}
		version, err := a.Version(ctx, "qemu-user-static")
		if err != nil {
			return "", nil, err
		}
		only := func(name string) bool { return filepath.Base(name) == program }
		return release + "_" + version, func(dst string) error {
			return a.UnpackAll(ctx, dst, only, "qemu-user-static")
		}, nil
	})
	if err != nil {
		return "", fmt.Errorf("getting %s: %w", program, err)
	}
	return filepath.Join(dir, "usr/bin", program), nil
}
