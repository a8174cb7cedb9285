// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"purerdma/test/abi/golden"
	"purerdma/test/microvm/apt"
	"purerdma/test/microvm/arch"
)

// releases lists the Debian releases that have the kernels.
var releases = []struct {
	name   string
	suites []string // "" means the release itself
}{
	{"bookworm", []string{""}},                   // 6.1
	{"trixie", []string{"", "trixie-backports"}}, // 6.12 and 7
}

// compiler is the package of the C compiler in the first release. One clang compiles for every machine, and
// starts no other program.
const compiler = "clang-14"

// A store has the packages in the user's cache directory.
type store struct {
	dir   string
	apts  []*apt.Apt // one for each release
	clang string     // directory of the unpacked compiler and its dependencies
}

// A version is one version of the headers.
type version struct {
	version string
	apt     *apt.Apt
}

func openStore(ctx context.Context, refresh bool) (*store, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	s := &store{dir: filepath.Join(base, "purerdma-abi")}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	// Up to 6.1 each machine has its own package of headers. This file is read
	// before the configuration of apt.Open, and a list only grows.
	conf := filepath.Join(s.dir, "machines.conf")
	if err := os.WriteFile(conf, []byte("APT::Architectures { \"arm64\"; };\n"), 0o644); err != nil {
		return nil, err
	}
	if err := os.Setenv("APT_CONFIG", conf); err != nil {
		return nil, err
	}
	for _, r := range releases {
		a, err := apt.Open(ctx, filepath.Join(s.dir, "apt", r.name), arch.AMD64, r.name, len(r.suites) > 1, refresh, os.Stderr)
		if err != nil {
			return nil, err
		}
		s.apts = append(s.apts, a)
	}
	s.clang = filepath.Join(s.dir, compiler)
	err = once(s.clang, func(dir string) error {
		return s.apts[0].UnpackAll(ctx, dir, wanted, compiler)
	})
	return s, err
}

// wanted reports whether a file is needed to run the compiler.
func wanted(name string) bool {
	return strings.Contains(name, ".so") || strings.HasPrefix(name, "usr/lib/llvm-14/bin/clang")
}

// once creates the directory dir by calling make, unless it exists.
func once(dir string, make func(dir string) error) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.RemoveAll(dir + ".new"); err != nil {
		return err
	}
	if err := os.MkdirAll(dir+".new", 0o755); err != nil {
		return err
	}
	if err := make(dir + ".new"); err != nil {
		return err
	}
	return os.Rename(dir+".new", dir)
}

// versions returns the available versions in get. They are the newest version of each suite and the versions
// with a golden file. gone lists the versions with a golden file that are not available.
func (s *store) versions(ctx context.Context, have []*golden.File) (get []version, gone []string, err error) {
	for i, r := range releases {
		for _, suite := range r.suites {
			name := golden.Package
			if suite != "" {
				name += "/" + suite
			}
			v, err := s.download(ctx, s.apts[i], name)
			if err != nil {
				return nil, nil, err
			}
			get = append(get, version{v, s.apts[i]})
		}
	}
	for _, f := range have {
		if slices.ContainsFunc(get, func(v version) bool { return v.version == f.Version }) {
			continue
		}
		i := slices.IndexFunc(s.apts, func(a *apt.Apt) bool {
			_, err := s.download(ctx, a, golden.Package+"="+f.Version)
			return err == nil
		})
		if i < 0 {
			gone = append(gone, f.Version)
			continue
		}
		get = append(get, version{f.Version, s.apts[i]})
	}
	return get, gone, nil
}

// download downloads and unpacks the headers of the package name, and returns their version.
func (s *store) download(ctx context.Context, a *apt.Apt, name string) (string, error) {
	tmp, err := os.MkdirTemp(s.dir, "download")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	debs, err := a.Fetch(ctx, tmp, name)
	if err != nil {
		return "", err
	}
	v, arch, err := debName(debs)
	if err != nil {
		return "", err
	}
	if err := s.unpack(ctx, debs[0], v, arch); err != nil || arch == "all" {
		return v, err
	}
	for _, m := range machines {
		if m.debian == arch {
			continue
		}
		dir := filepath.Join(tmp, m.debian)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", err
		}
		debs, err := a.Fetch(ctx, dir, golden.Package+":"+m.debian+"="+v)
		if err != nil {
			return "", err
		}
		if err := s.unpack(ctx, debs[0], v, m.debian); err != nil {
			return "", err
		}
	}
	a.Clean()
	return v, nil
}

// debName returns the version and the machine in a file's name.
func debName(debs []string) (version, arch string, err error) {
	if len(debs) != 1 {
		return "", "", fmt.Errorf("want one package, got %q", debs)
	}
	f := strings.Split(strings.TrimSuffix(filepath.Base(debs[0]), ".deb"), "_")
	if len(f) != 3 || f[0] != golden.Package {
		return "", "", fmt.Errorf("%s: unexpected name", debs[0])
	}
	return strings.ReplaceAll(f[1], "%3a", ":"), f[2], nil
}

func (s *store) unpack(ctx context.Context, deb, version, arch string) error {
	return once(s.headers(version, arch), func(dir string) error {
		return apt.Unpack(ctx, deb, dir, nil)
	})
}

// headers returns the directory of the unpacked headers of a version.
func (s *store) headers(version, arch string) string {
	return filepath.Join(s.dir, golden.Package, version+"_"+arch)
}

// includes returns the directories to search for headers.
func (s *store) includes(version string, m machine) ([]string, error) {
	for _, arch := range []string{m.debian, "all"} {
		usr := filepath.Join(s.headers(version, arch), "usr")
		if _, err := os.Stat(usr); err != nil {
			continue
		}
		for _, asm := range []string{"include/" + m.triplet, "lib/linux/uapi/" + m.linux} {
			if _, err := os.Stat(filepath.Join(usr, asm, "asm")); err == nil {
				return []string{filepath.Join(usr, asm), filepath.Join(usr, "include")}, nil
			}
		}
	}
	return nil, fmt.Errorf("no headers for %s", m.debian)
}
