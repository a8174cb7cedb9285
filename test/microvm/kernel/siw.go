// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kernel

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"purerdma/test/microvm/apt"
)

// siwDir is the directory of the driver in a kernel's source.
const siwDir = "drivers/infiniband/sw/siw"

// prepareSIW adds siw.ko to the kernel. It is built once for each release.
func prepareSIW(ctx context.Context, k *Kernel, s Sources) error {
	if k.has("siw") {
		return nil
	}
	if k.custom {
		return fmt.Errorf("RDMAVM_KERNEL: Linux %s has no module siw in %s (rdmavm builds it only for downloaded kernels)", k.Release, k.Modules)
	}
	dir, err := s.Cache.Get("siw", k.Release, s.Refresh, func() (string, func(string) error, error) {
		if err := buildable(s.Cache.Path()); err != nil {
			return "", nil, err
		}
		a, err := s.apt(ctx)
		if err != nil {
			return "", nil, err
		}
		headers := "linux-headers-" + k.Release
		version, err := a.Version(ctx, headers)
		if err != nil {
			return "", nil, fmt.Errorf("%w (if the mirror has a newer kernel, run rdmavm -kernel %s -driver siw -prepare)", err, s.Series.Name)
		}
		return k.Release + "_" + version, func(dst string) error {
			return buildSIW(ctx, a, headers, version, dst, s)
		}, nil
	})
	if err != nil {
		return fmt.Errorf("build the module siw for Linux %s: %w", k.Release, err)
	}
	k.add(filepath.Join(dir, "siw.ko"))
	return nil
}

// buildSIW builds siw.ko in dst.
func buildSIW(ctx context.Context, a *apt.Apt, headers, version, dst string, s Sources) error {
	t := &tree{dir: filepath.Join(dst, "tree"), on: s.Arch, progress: s.Progress}
	defer os.RemoveAll(t.dir)
	source, err := sourcePackage(version)
	if err != nil {
		return err
	}
	machine := a
	if !s.Arch.Native() {
		if machine, err = s.machineApt(ctx, s.Series.Release); err != nil {
			return err
		}
		if err := t.unpackCompiler(ctx, machine); err != nil {
			return err
		}
	}
	if err := t.unpack(ctx, a, machine, headers, source+"="+version); err != nil {
		return err
	}
	if err := t.extract(ctx, source, siwDir); err != nil {
		return err
	}
	ko, err := t.build(ctx, headers, filepath.Join(source, siwDir), "CONFIG_RDMA_SIW=m")
	if err != nil {
		return err
	}
	return os.Rename(ko, filepath.Join(dst, "siw.ko"))
}

// sourcePackage returns the package with the source of a version, such as linux-source-6.1 for
// 6.1.192-2.
func sourcePackage(version string) (string, error) {
	major, rest, _ := strings.Cut(version, ".")
	minor := rest[:len(rest)-len(strings.TrimLeft(rest, digits))]
	if strings.Trim(major, digits) != "" || major == "" || minor == "" {
		return "", fmt.Errorf("kernel version %s does not begin with two numbers", version)
	}
	return "linux-source-" + major + "." + minor, nil
}
