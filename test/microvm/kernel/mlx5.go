// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kernel

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"purerdma/test/microvm/apt"
)

// mlx5Module selects the driver's modules among the network cards' modules, which Get leaves
// out.
func mlx5Module(name string) bool {
	base, _, ok := strings.Cut(path.Base(name), ".ko")
	return ok && (base == "mlxfw" || base == "mlx5_core") && strings.Contains(name, "/kernel/drivers/net/ethernet/mellanox/")
}

// prepareMLX5 adds the modules of ConnectX cards to the kernel.
func prepareMLX5(ctx context.Context, k *Kernel, s Sources) error {
	if k.has("mlx5_core") {
		return nil
	}
	if k.custom {
		return fmt.Errorf("RDMAVM_KERNEL: Linux %s has no module mlx5_core in %s", k.Release, k.Modules)
	}
	dir, err := s.Cache.Get("mlx5", k.Release, s.Refresh, func() (string, func(string) error, error) {
		a, err := s.apt(ctx)
		if err != nil {
			return "", nil, err
		}
		pkg := s.Series.modulesPackage(k.Release)
		version, err := a.Version(ctx, pkg)
		if err != nil {
			return "", nil, fmt.Errorf("%w (if the mirror has a newer kernel, run rdmavm -kernel %s -driver mlx5 -prepare)", err, s.Series.Name)
		}
		return k.Release + "_" + version, func(dst string) error { return unpackMLX5(ctx, a, pkg, dst) }, nil
	})
	if err != nil {
		return fmt.Errorf("get the mlx5 modules for Linux %s: %w", k.Release, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.ko"))
	for _, f := range files {
		k.add(f)
	}
	return err
}

// modulesPackage returns the package with the modules of a release.
func (s Series) modulesPackage(release string) string {
	if slices.Contains(s.More, "linux-modules-") {
		return "linux-modules-" + release
	}
	return "linux-image-" + release
}

// unpackMLX5 stores the modules in dst.
func unpackMLX5(ctx context.Context, a *apt.Apt, pkg, dst string) error {
	tmp, err := os.MkdirTemp(filepath.Dir(dst), "deb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	debs, err := a.Fetch(ctx, tmp, pkg)
	if err != nil {
		return err
	}
	for _, d := range debs {
		if err := apt.Unpack(ctx, d, tmp, mlx5Module); err != nil {
			return err
		}
	}
	if err := decompress(ctx, tmp); err != nil {
		return err
	}
	n := 0
	err = filepath.WalkDir(tmp, func(p string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(p, ".ko") {
			return err
		}
		n++
		return os.Rename(p, filepath.Join(dst, filepath.Base(p)))
	})
	if err == nil && n == 0 {
		err = fmt.Errorf("%s has no module mlx5_core", pkg)
	}
	if err == nil {
		a.Clean()
	}
	return err
}
