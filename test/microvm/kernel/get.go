// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"purerdma/test/microvm/apt"
)

// A Kernel is a kernel that is ready to boot.
type Kernel struct {
	Release string            // as in uname -r
	Image   string            // vmlinuz or, preferably, vmlinux
	Modules string            // directory with modules.dep
	Extra   map[string]string // further modules, from their paths relative to Modules to their files
	custom  bool              // not a Debian kernel
}

// Get returns the newest kernel of the series. It uses the cache unless src.Refresh is set.
func Get(ctx context.Context, src Sources) (*Kernel, error) {
	s := src.Series
	dir, err := src.Cache.Get("kernel"+src.Arch.Suffix(), s.Name, src.Refresh, func() (string, func(string) error, error) {
		a, err := src.apt(ctx)
		if err != nil {
			return "", nil, err
		}
		image, release, err := newest(ctx, a, s)
		if err != nil {
			return "", nil, err
		}
		version, err := a.Version(ctx, image)
		if err != nil {
			return "", nil, err
		}
		return release + "_" + version, func(dst string) error {
			packages := []string{image}
			for _, p := range s.More {
				packages = append(packages, p+release)
			}
			if err := unpack(ctx, a, packages, dst, src.Progress); err != nil {
				return err
			}
			a.Clean()
			return nil
		}, nil
	})
	if errors.Is(err, apt.ErrNotDebian) {
		err = fmt.Errorf("%w (set RDMAVM_KERNEL to a kernel with RDMA modules, such as /boot/vmlinuz, and RDMAVM_MODULES to its modules if they are not in /lib/modules)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("get Linux %s: %w", s.Name, err)
	}
	return Open(dir)
}

// newest returns the series' newest package and its kernel's release.
func newest(ctx context.Context, a *apt.Apt, s Series) (pkg, release string, err error) {
	names, err := a.Names(ctx, s.prefix())
	if err != nil {
		return "", "", err
	}
	for _, n := range names {
		r, ok := s.release(n)
		if !ok || release != "" && compare(r, release) <= 0 {
			continue
		}
		if _, err := a.Version(ctx, n); err == nil {
			pkg, release = n, r
		}
	}
	if pkg == "" {
		return "", "", fmt.Errorf("the mirror has no package %s* in Debian %s", s.prefix(), s.Release)
	}
	return pkg, release, nil
}

// compare compares two releases of one series by their numbers.
func compare(a, b string) int {
	num := func(s string) (v []int) {
		for _, d := range strings.FieldsFunc(s, func(r rune) bool { return !strings.ContainsRune(digits, r) }) {
			n, _ := strconv.Atoi(d)
			v = append(v, n)
		}
		return v
	}
	return slices.Compare(num(a), num(b))
}

// unpack downloads the packages and stores vmlinuz and the modules in dst.
func unpack(ctx context.Context, a *apt.Apt, packages []string, dst string, progress io.Writer) error {
	tmp, err := os.MkdirTemp(filepath.Dir(dst), "deb-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	debs, err := a.Fetch(ctx, tmp, packages...)
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "rdmavm: unpacking %s\n", strings.Join(packages, ", "))
	for _, d := range debs {
		if err := apt.Unpack(ctx, d, dst, wanted); err != nil {
			return err
		}
	}
	if err := decompress(ctx, dst); err != nil {
		return err
	}
	dirs, _ := filepath.Glob(filepath.Join(dst, "usr/lib/modules/*"))
	if len(dirs) != 1 {
		return fmt.Errorf("%s: %d directories of modules, want one", strings.Join(packages, ", "), len(dirs))
	}
	if err := Index(dirs[0]); err != nil {
		return err
	}
	k, err := Open(dst)
	if err != nil {
		return err
	}
	// Without vmlinux the kernel boots as well, but more slowly.
	if b, err := extract(ctx, k.Image); err == nil {
		return os.WriteFile(filepath.Join(dst, vmlinux), b, 0o644)
	}
	return nil
}

// unwanted lists subsystems that a VM does not need. They are most of the bytes.
var unwanted = map[string][]string{
	"":             {"sound"},
	"drivers/":     {"gpu", "accel", "media", "staging", "iio", "usb", "hwmon", "input", "hid", "mmc", "mtd", "bluetooth", "platform", "power", "thermal"},
	"drivers/net/": {"wireless", "ethernet", "can", "usb", "phy", "dsa"},
	"net/":         {"mac80211", "wireless", "bluetooth", "can"},
}

func wanted(name string) bool {
	if !strings.HasPrefix(name, "usr/lib/modules/") {
		return strings.HasPrefix(name, "boot/vmlinuz")
	}
	_, module, _ := strings.Cut(name, "/kernel/")
	for parent, list := range unwanted {
		if rest, ok := strings.CutPrefix(module, parent); ok {
			dir, _, inside := strings.Cut(rest, "/")
			if inside && slices.Contains(list, dir) {
				return false
			}
		}
	}
	return true
}

// decompressors lists the programs for compressed modules. They replace a file by the
// uncompressed file.
var decompressors = map[string][]string{
	".xz":  {"xz", "-d", "-q", "-T0"},
	".zst": {"zstd", "-d", "-q", "--rm"},
	".gz":  {"gzip", "-d", "-q"},
}

// decompress unpacks compressed modules of the distribution, because the guest has no program
// for this.
func decompress(ctx context.Context, dir string) error {
	files := map[string][]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if ext := filepath.Ext(p); err == nil && decompressors[ext] != nil && strings.HasSuffix(p, ".ko"+ext) {
			files[ext] = append(files[ext], p)
		}
		return err
	})
	for ext, list := range files {
		for part := range slices.Chunk(list, 500) {
			argv := slices.Concat(decompressors[ext], part)
			out, cerr := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
			if cerr != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w: %s", strings.Join(decompressors[ext], " "), cerr, out))
			}
		}
	}
	return err
}

// vmlinux is the name of the kernel extracted from its bzImage.
const vmlinux = "vmlinux"

// Open returns the kernel in a directory that Get has filled.
func Open(dir string) (*Kernel, error) {
	mods, _ := filepath.Glob(filepath.Join(dir, "usr/lib/modules/*/modules.dep"))
	if len(mods) != 1 {
		return nil, fmt.Errorf("%s: contains modules of %d kernels, want one (remove it and try again)", dir, len(mods))
	}
	k := &Kernel{Modules: filepath.Dir(mods[0])}
	k.Release = filepath.Base(k.Modules)
	for _, p := range []string{filepath.Join(dir, vmlinux), filepath.Join(dir, "boot/vmlinuz-"+k.Release), filepath.Join(k.Modules, "vmlinuz")} {
		if _, err := os.Stat(p); err == nil {
			k.Image = p
			return k, nil
		}
	}
	return nil, fmt.Errorf("%s: contains no vmlinuz (remove it and try again)", dir)
}
