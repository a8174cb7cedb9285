// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"purerdma/test/microvm/arch"
)

// relocate corrects the directories in the headers' makefile, which expects that the packages
// are installed.
func (t *tree) relocate(headers string) error {
	name := filepath.Join(t.dir, "usr/src", headers, "Makefile")
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	b = bytes.ReplaceAll(b, []byte("/usr/src/"), []byte(t.dir+"/usr/src/"))
	return os.WriteFile(name, b, 0o644)
}

// library is the directory of the libraries on a Debian system.
var library = filepath.Join("usr/lib", arch.AMD64.Triplet)

// wrapTools makes the build programs use the libraries of the tree. The machine's C library may
// be too old for them, and other libraries may be missing.
func (t *tree) wrapTools() error {
	dirs, err := filepath.Glob(filepath.Join(t.dir, "usr/lib/linux-kbuild-*"))
	if err != nil || len(dirs) != 1 {
		return fmt.Errorf("%d directories of build programs, want one (%v)", len(dirs), err)
	}
	return wrapPrograms(dirs[0], filepath.Join(t.dir, library))
}

// wrapPrograms makes the programs below dir use the libraries in a directory. Other files than
// programs, such as shared libraries, keep their form.
func wrapPrograms(dir, libraries string) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		st, err := d.Info()
		if err != nil || st.Mode()&0o111 == 0 {
			return err
		}
		if ok, err := isELF(p); err != nil || !ok {
			return err
		}
		return wrap(p, libraries)
	})
}

// wrap replaces a program by a script that starts it with the libraries in a directory. The script
// sets the program's own path as its name, because some programs look for others in their
// directory.
func wrap(program, libraries string) error {
	elf := program + ".elf"
	script := fmt.Sprintf("#!/bin/sh\nexec %[1]s/%[2]s --library-path %[1]s --argv0 \"$0\" %[3]s \"$@\"\n", libraries, arch.AMD64.Linker, elf)
	return errors.Join(os.Rename(program, elf), os.WriteFile(program, []byte(script), 0o755))
}

// isELF reports whether the file is an ELF file.
func isELF(name string) (bool, error) {
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil {
		return false, nil // too short
	}
	return string(magic) == "\x7fELF", nil
}
