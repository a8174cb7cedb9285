// SPDX-License-Identifier: Apache-2.0

// Package elfdep finds the files that a dynamically linked program needs, which are its dynamic
// linker and its libraries.
package elfdep

import (
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Files returns the paths of the program's dynamic linker and libraries, as they are looked up.
// A static program needs no files.
func Files(program string) ([]string, error) {
	interp, _, err := read(program)
	if err != nil || interp == "" {
		return nil, err
	}
	files := []string{interp}
	seen := map[string]bool{filepath.Base(interp): true}
	for queue := []string{program}; len(queue) > 0; queue = queue[1:] {
		_, libs, err := read(queue[0])
		if err != nil {
			return nil, err
		}
		for _, name := range libs.needed {
			if seen[filepath.Base(name)] {
				continue
			}
			seen[filepath.Base(name)] = true
			path := find(name, append(libs.path(queue[0]), filepath.Dir(interp)))
			if path == "" {
				return nil, fmt.Errorf("%s: needs %s, which is not in the standard directories", queue[0], name)
			}
			files = append(files, path)
			queue = append(queue, path)
		}
	}
	return files, nil
}

// libraries contains the library entries of a file's dynamic section.
type libraries struct {
	needed []string
	runs   []string // DT_RUNPATH and DT_RPATH
}

// path returns the directories in the file itself.
func (l libraries) path(file string) []string {
	var dirs []string
	for _, r := range l.runs {
		for d := range strings.SplitSeq(r, ":") {
			d = strings.ReplaceAll(d, "${ORIGIN}", "$ORIGIN")
			dirs = append(dirs, strings.ReplaceAll(d, "$ORIGIN", filepath.Dir(file)))
		}
	}
	return dirs
}

// read returns the file's libraries and its interpreter, or "" if it has none.
func read(path string) (interp string, l libraries, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", l, fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b, err := io.ReadAll(p.Open())
			if err != nil {
				return "", l, fmt.Errorf("%s: %w", path, err)
			}
			interp = strings.TrimRight(string(b), "\x00")
		}
	}
	if l.needed, err = f.ImportedLibraries(); err != nil {
		return "", l, fmt.Errorf("%s: %w", path, err)
	}
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		s, _ := f.DynString(tag)
		l.runs = append(l.runs, s...)
	}
	return interp, l, nil
}

// defaultDirs lists the default directories of dynamic linkers.
var defaultDirs = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
	"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib",
}

// find searches a library in dirs and then in the default directories.
func find(name string, dirs []string) string {
	if strings.Contains(name, "/") {
		return name
	}
	for _, d := range append(dirs, defaultDirs...) {
		p := filepath.Join(d, name)
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return ""
}
