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

// Dirs returns the directories for the commands, each at its own path, a
// parent before what is below it, and none that lies in another. extra are
// those asked for by name; exists says which paths are directories.
func Dirs(commands []wire.Command, extra []string, exists func(string) bool) []string {
	var dirs []string
	add := func(base, path string) {
		if path == "" {
			return
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(base, path)
		}
		if path = filepath.Clean(path); exists(path) {
			dirs = append(dirs, path)
		}
	}
	for _, d := range extra {
		add("", d)
	}
	for _, c := range commands {
		for _, d := range commandDirs(c) {
			if !system(filepath.Clean(d)) {
				add(c.Dir, d)
			}
		}
	}
	slices.Sort(dirs)
	var out []string
	for _, d := range dirs {
		if len(out) == 0 || !within(d, out[len(out)-1]) {
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
		if f := flags[name]; f != "" && !filepath.IsAbs(f) {
			f = filepath.Join(base, f)
			dirs = append(dirs, filepath.Dir(f))
		} else if f != "" {
			dirs = append(dirs, filepath.Dir(f))
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
