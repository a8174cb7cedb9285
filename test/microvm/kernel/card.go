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

// A card contains modules of network cards, which Get leaves out. They are in the package of the
// kernel's modules.
type card struct {
	name    string   // of the cache entry
	dir     string   // in drivers/net/ethernet
	modules []string // the last one needs the others
}

// selects reports whether a file of the package is a module of the card.
func (c card) selects(name string) bool {
	base, _, ok := strings.Cut(path.Base(name), ".ko")
	return ok && slices.Contains(c.modules, base) && strings.Contains(name, "/kernel/drivers/net/ethernet/"+c.dir+"/")
}

// prepare adds the modules to the kernel.
func (c card) prepare(ctx context.Context, k *Kernel, s Sources) error {
	main := c.modules[len(c.modules)-1]
	if k.has(main) {
		return nil
	}
	if k.custom {
		return fmt.Errorf("RDMAVM_KERNEL: Linux %s has no module %s in %s", k.Release, main, k.Modules)
	}
	dir, err := s.Cache.Get(c.name, k.Release, s.Refresh, func() (string, func(string) error, error) {
		a, err := s.apt(ctx)
		if err != nil {
			return "", nil, err
		}
		pkg := s.Series.modulesPackage(k.Release)
		version, err := a.Version(ctx, pkg)
		if err != nil {
			return "", nil, fmt.Errorf("%w (if the mirror has a newer kernel, run rdmavm -kernel %s -driver %s -prepare)", err, s.Series.Name, c.name)
		}
		return k.Release + "_" + version, func(dst string) error { return c.unpack(ctx, a, pkg, dst) }, nil
	})
	if err != nil {
		return fmt.Errorf("get the modules of %s for Linux %s: %w", c.name, k.Release, err)
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

// unpack stores the modules in dst.
func (c card) unpack(ctx context.Context, a *apt.Apt, pkg, dst string) error {
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
		if err := apt.Unpack(ctx, d, tmp, c.selects); err != nil {
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
		err = fmt.Errorf("%s has none of the modules %s", pkg, strings.Join(c.modules, ", "))
	}
	if err == nil {
		a.Clean()
	}
	return err
}
