// SPDX-License-Identifier: Apache-2.0

//go:build linux

package apt

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"purerdma/test/microvm/progress"
)

// A Package is one file to download, as apt names it.
type Package struct {
	File string // name_version_arch.deb
	Size int64
}

// Closure returns the packages named and everything they depend on,
// recommendations left out.
func (a *Apt) Closure(ctx context.Context, names ...string) ([]Package, error) {
	out, err := a.output(ctx, a.dir, "apt-get", append([]string{"-q", "-y", "--print-uris", "--no-install-recommends", "install"}, names...)...)
	if err != nil {
		return nil, err
	}
	return parseURIs(out)
}

// parseURIs reads lines of the form 'URI' FILE SIZE [HASH]; the rest is
// apt talking.
func parseURIs(out string) ([]Package, error) {
	var ps []Package
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "'") {
			continue
		}
		f := strings.Fields(line)
		if len(f) < 3 {
			return nil, fmt.Errorf("apt-get --print-uris: unexpected line %q", line)
		}
		size, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("apt-get --print-uris: unexpected size in %q", line)
		}
		ps = append(ps, Package{File: f[1], Size: size})
	}
	return ps, nil
}

// Names returns the packages known whose names begin with prefix.
func (a *Apt) Names(ctx context.Context, prefix string) ([]string, error) {
	out, err := a.output(ctx, a.dir, "apt-cache", "pkgnames", prefix)
	return strings.Fields(out), err
}

// Version returns the version of a package that apt would install.
func (a *Apt) Version(ctx context.Context, name string) (string, error) {
	out, err := a.output(ctx, a.dir, "apt-cache", "policy", name)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "Candidate:"); ok && strings.TrimSpace(v) != "(none)" {
			return strings.TrimSpace(v), nil
		}
	}
	return "", fmt.Errorf("apt-cache policy %s: no version to be had", name)
}

// Depends returns the names of the packages that the one named depends on
// itself.
func (a *Apt) Depends(ctx context.Context, name string) ([]string, error) {
	out, err := a.output(ctx, a.dir, "apt-cache", "depends", "--important", name)
	return parseDepends(out), err
}

// parseDepends reads lines of the form "  Depends: NAME", with a "|" in front
// if the next line is an alternative.
func parseDepends(out string) (names []string) {
	for line := range strings.Lines(out) {
		if n, ok := strings.CutPrefix(strings.TrimLeft(line, " |"), "Depends: "); ok {
			names = append(names, strings.TrimSpace(n))
		}
	}
	return names
}

// FetchAll downloads the packages named and all they depend on, and returns
// the files' paths.
func (a *Apt) FetchAll(ctx context.Context, names ...string) ([]string, error) {
	ps, err := a.Closure(ctx, names...)
	if err != nil {
		return nil, err
	}
	archives := filepath.Join(a.dir, "cache/archives")
	paths := make([]string, len(ps))
	for i, p := range ps {
		paths[i] = filepath.Join(archives, p.File)
	}
	defer a.announce(names, ps, archives)()
	return paths, a.run(ctx, "apt-get", append([]string{"-q", "-y", "--download-only", "--no-install-recommends", "install"}, names...)...)
}

// Fetch downloads the packages named, without what they depend on, into dir
// and returns the files' paths.
func (a *Apt) Fetch(ctx context.Context, dir string, names ...string) ([]string, error) {
	out, err := a.output(ctx, dir, "apt-get", append([]string{"-q", "--print-uris", "download"}, names...)...)
	if err != nil {
		return nil, err
	}
	ps, err := parseURIs(out)
	if err != nil {
		return nil, err
	}
	defer a.announce(names, ps, dir)()
	if _, err := a.output(ctx, dir, "apt-get", append([]string{"-q", "download"}, names...)...); err != nil {
		return nil, err
	}
	return filepath.Glob(filepath.Join(dir, "*.deb"))
}

// announce says what is being downloaded, and how far it is until the
// function returned is called.
func (a *Apt) announce(names []string, ps []Package, dir string) (done func()) {
	var size int64
	for _, p := range ps {
		size += p.Size
	}
	what := "downloading " + strings.Join(names, ", ")
	fmt.Fprintf(a.progress, "rdmavm: %s: %d packages, %.0f MB\n", what, len(ps), float64(size)/1e6)
	return progress.Watch(a.progress, what, dir, size)
}

// Clean removes the packages downloaded by FetchAll: what is unpacked is
// not needed a second time.
func (a *Apt) Clean() {
	debs, _ := filepath.Glob(filepath.Join(a.dir, "cache/archives/*.deb"))
	for _, d := range debs {
		os.Remove(d)
	}
}

// UnpackAll downloads the packages named and all they depend on and unpacks
// them into dst.
func (a *Apt) UnpackAll(ctx context.Context, dst string, keep func(string) bool, names ...string) error {
	debs, err := a.FetchAll(ctx, names...)
	if err != nil {
		return err
	}
	defer a.Clean()
	fmt.Fprintf(a.progress, "rdmavm: unpacking %s\n", strings.Join(names, ", "))
	for _, d := range debs {
		if err := Unpack(ctx, d, dst, keep); err != nil {
			return err
		}
	}
	return nil
}
