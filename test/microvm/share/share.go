// SPDX-License-Identifier: Apache-2.0

// Package share finds out which directories of the host a program in the
// guest is to write to. All others it can only read.
package share

import (
	"path/filepath"
	"slices"
	"strings"

	"purerdma/test/microvm/wire"
)

// Dirs returns the directories for the commands, each at its own path, and
// none that lies in another. extra are those asked for by name. resolve
// returns a path without symbolic links, and false if it is no directory: in
// the guest, a link to an absolute path would lead out of a root that is
// still being put together.
func Dirs(commands []wire.Command, extra []string, resolve func(string) (string, bool)) []string {
	var dirs []string
	for _, d := range extra {
		if d, ok := resolve(d); ok {
			dirs = append(dirs, d)
		}
	}
	for _, c := range commands {
		for _, d := range commandDirs(c) {
			if d == "" {
				continue
			}
			if !filepath.IsAbs(d) {
				d = filepath.Join(c.Dir, d)
			}
			if d, ok := resolve(filepath.Clean(d)); ok && !system(d) {
				dirs = append(dirs, d)
			}
		}
	}
	slices.Sort(dirs)
	var out []string
	for _, d := range dirs {
		if !slices.ContainsFunc(out, func(o string) bool { return within(d, o) }) {
			out = append(out, d)
		}
	}
	return out
}

// commandDirs returns what one command may write to: its working directory,
// the work directory of the go command that its program lies in, and what
// its environment and flags name.
func commandDirs(c wire.Command) []string {
	dirs := []string{c.Dir, goBuild(c.Args[0])}
	for _, kv := range c.Env {
		if v, ok := strings.CutPrefix(kv, "GOCOVERDIR="); ok {
			dirs = append(dirs, v)
		}
	}
	base := c.Dir
	flags := testFlags(c.Args[1:])
	if d := flags["outputdir"]; d != "" {
		base = d
		dirs = append(dirs, d)
	}
	for _, name := range fileFlags {
		if f := flags[name]; filepath.IsAbs(f) {
			dirs = append(dirs, filepath.Dir(f))
		} else if f != "" {
			dirs = append(dirs, filepath.Dir(filepath.Join(base, f)))
		}
	}
	for _, name := range dirFlags {
		dirs = append(dirs, flags[name])
	}
	return dirs
}

// Flags of test binaries that name files and directories to write.
var (
	fileFlags = []string{"coverprofile", "cpuprofile", "memprofile", "blockprofile", "mutexprofile", "trace", "testlogfile"}
	dirFlags  = []string{"gocoverdir", "fuzzcachedir"}
)

// testFlags returns the values of the -test.* flags among args.
func testFlags(args []string) map[string]string {
	m := map[string]string{}
	for i, a := range args {
		if a == "--" {
			break
		}
		name, ok := strings.CutPrefix(a, "-")
		name, test := strings.CutPrefix(strings.TrimPrefix(name, "-"), "test.")
		if !ok || !test {
			continue
		}
		name, value, has := strings.Cut(name, "=")
		if !has && i+1 < len(args) {
			value = args[i+1]
		}
		m[name] = value
	}
	return m
}

// goBuild returns the work directory of the go command that path lies in.
func goBuild(path string) string {
	if !filepath.IsAbs(path) {
		return ""
	}
	for d := filepath.Dir(path); d != "/"; d = filepath.Dir(d) {
		if strings.HasPrefix(filepath.Base(d), "go-build") && len(filepath.Base(d)) > len("go-build") {
			return d
		}
	}
	return ""
}

// system says whether a directory is one that no program gets by chance,
// as when rdmavm is called in the root directory.
func system(dir string) bool {
	switch dir {
	case "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var":
		return true
	}
	for _, d := range []string{"/proc", "/sys", "/dev", "/run", "/usr/bin", "/usr/lib", "/usr/sbin", "/etc"} {
		if within(dir, d) {
			return true
		}
	}
	return false
}

// within says whether path is dir or lies in it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}
