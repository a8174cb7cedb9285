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

// A source is a module of a driver of the same name that Debian's kernels do not include. It is
// built from the kernel's source.
type source struct {
	module string
	dir    string // its directory in the kernel's source
	config string // the setting that makes it a module
}

// prepare adds the module to the kernel. It is built once for each release.
func (m source) prepare(ctx context.Context, k *Kernel, s Sources) error {
	if k.has(m.module) {
		return nil
	}
	if k.custom {
		return fmt.Errorf("RDMAVM_KERNEL: Linux %s has no module %s in %s (rdmavm builds it only for downloaded kernels)", k.Release, m.module, k.Modules)
	}
	if s.Series.Prebuilt {
		return fmt.Errorf("rdmavm does not build modules for Linux %s, so it has no driver %s there (choose another -kernel or -driver)", s.Series.Name, m.module)
	}
	dir, err := s.Cache.Get(m.module, k.Release, s.Refresh, func() (string, func(string) error, error) {
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
			return "", nil, fmt.Errorf("%w (if the mirror has a newer kernel, run rdmavm -kernel %s -driver %s -prepare)", err, s.Series.Name, m.module)
		}
		return k.Release + "_" + version, func(dst string) error {
			return m.build(ctx, a, headers, version, dst, s)
		}, nil
	})
	if err != nil {
		return fmt.Errorf("build the module %s for Linux %s: %w", m.module, k.Release, err)
	}
	k.add(filepath.Join(dir, m.module+".ko"))
	return nil
}

// build builds the module in dst.
func (m source) build(ctx context.Context, a *apt.Apt, headers, version, dst string, s Sources) error {
	t := &tree{dir: filepath.Join(dst, "tree"), on: s.Arch, progress: s.Progress}
	defer os.RemoveAll(t.dir)
	pkg, err := sourcePackage(version)
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
	if err := t.unpack(ctx, a, machine, headers, pkg+"="+version); err != nil {
		return err
	}
	if err := t.extract(ctx, pkg, m.dir); err != nil {
		return err
	}
	ko, err := t.build(ctx, headers, filepath.Join(pkg, m.dir), m.config)
	if err != nil {
		return err
	}
	return os.Rename(ko, filepath.Join(dst, m.module+".ko"))
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
