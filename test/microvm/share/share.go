// SPDX-License-Identifier: Apache-2.0

// Package share determines the directories of the host that a program in the guest may write
// to. It can only read all others.
package share

import (
	"path/filepath"
	"slices"
	"strings"

	"purerdma/test/microvm/wire"
)

// Dirs returns the directories for the commands, each at its own path, without directories
// inside of others. extra contains the directories that the user has named. resolve returns a
// path without symbolic links, or false if it is no directory. A link to an absolute path would
// lead out of the guest's root while that is under construction.
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

// commandDirs returns the directories that one command may write to. These are its working
// directory, the work directory of the go command that contains its program, and the
// directories in its environment and flags.
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

// Flags of test binaries that name output files and directories.
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

// goBuild returns the work directory of the go command that contains path.
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

// system reports whether a directory must not be shared by accident, for example because rdmavm
// was started in the root directory.
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

// within reports whether path is dir or inside of it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}
