// SPDX-License-Identifier: Apache-2.0

//go:build linux

package apt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A Package is one file to download, with apt's name, size and checksum.
type Package struct {
	URI  string
	File string // name_version_arch.deb
	Size int64
	Hash string // "SHA256:" and the checksum
}

// forceHash makes apt print the checksums that check verifies.
const forceHash = "Acquire::ForceHash=SHA256"

// Closure returns the named packages and all their dependencies, without recommendations.
func (a *Apt) Closure(ctx context.Context, names ...string) ([]Package, error) {
	out, err := a.output(ctx, a.dir, "apt-get", append([]string{"-q", "-y", "-o", forceHash, "--print-uris", "--no-install-recommends", "install"}, names...)...)
	if err != nil {
		return nil, err
	}
	return parseURIs(out)
}

// parseURIs parses lines of the form 'URI' FILE SIZE HASH. It ignores other lines.
func parseURIs(out string) ([]Package, error) {
	var ps []Package
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "'") {
			continue
		}
		f := strings.Fields(line)
		if len(f) < 4 {
			return nil, fmt.Errorf("apt-get --print-uris: unexpected line %q", line)
		}
		size, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("apt-get --print-uris: unexpected size in %q", line)
		}
		ps = append(ps, Package{URI: strings.Trim(f[0], "'"), File: f[1], Size: size, Hash: f[3]})
	}
	return ps, nil
}

// Names returns the known packages with a name prefix.
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
	return "", fmt.Errorf("apt-cache policy %s: no version available", name)
}

// Depends returns the names of a package's direct dependencies.
func (a *Apt) Depends(ctx context.Context, name string) ([]string, error) {
	out, err := a.output(ctx, a.dir, "apt-cache", "depends", "--important", name)
	return parseDepends(out), err
}

// parseDepends parses lines of the form " Depends: NAME", with a "|" in front if the next line
// is an alternative.
func parseDepends(out string) (names []string) {
	for line := range strings.Lines(out) {
		if n, ok := strings.CutPrefix(strings.TrimLeft(line, " |"), "Depends: "); ok {
			names = append(names, strings.TrimSpace(n))
		}
	}
	return names
}

// FetchAll downloads the named packages and all their dependencies, and returns the paths of
// the files.
func (a *Apt) FetchAll(ctx context.Context, names ...string) ([]string, error) {
	ps, err := a.Closure(ctx, names...)
	if err != nil {
		return nil, err
	}
	return a.download(ctx, names, ps)
}

// Fetch downloads the named packages without their dependencies into dir, and returns the paths
// of the files. Until Clean, another Fetch does not download them again.
func (a *Apt) Fetch(ctx context.Context, dir string, names ...string) ([]string, error) {
	// apt would skip files that exist in dir.
	empty, err := os.MkdirTemp(a.dir, "empty-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(empty)
	out, err := a.output(ctx, empty, "apt-get", append([]string{"-q", "-o", forceHash, "--print-uris", "download"}, names...)...)
	if err != nil {
		return nil, err
	}
	ps, err := parseURIs(out)
	if err != nil {
		return nil, err
	}
	paths, err := a.download(ctx, names, ps)
	if err != nil {
		return nil, err
	}
	for i, from := range paths {
		paths[i] = filepath.Join(dir, filepath.Base(from))
		if err := link(from, paths[i]); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// link links a file to another name, or copies it to another file system.
func link(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

// Clean removes the downloaded packages, because unpacked packages are not needed again. If a
// process is interrupted before Clean, the next one reuses its downloads. Clean also removes
// partial downloads that are older than a day.
func (a *Apt) Clean() {
	debs, _ := filepath.Glob(filepath.Join(a.dir, "cache/archives/*.deb"))
	for _, d := range debs {
		os.Remove(d)
	}
	parts, _ := filepath.Glob(filepath.Join(a.dir, "cache/archives/partial/*"))
	for _, p := range parts {
		if st, err := os.Stat(p); err == nil && time.Since(st.ModTime()) > listAge {
			os.Remove(p)
		}
	}
}

// UnpackAll downloads the named packages and all their dependencies and unpacks them into dst.
func (a *Apt) UnpackAll(ctx context.Context, dst string, keep func(string) bool, names ...string) error {
	debs, err := a.FetchAll(ctx, names...)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.progress, "rdmavm: unpacking %s\n", strings.Join(names, ", "))
	for _, d := range debs {
		if err := Unpack(ctx, d, dst, keep); err != nil {
			return err
		}
	}
	a.Clean()
	return nil
}
