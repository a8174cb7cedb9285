// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"purerdma/test/microvm/kernel"
)

// modules loads modules from a directory.
type modules struct{ dir string }

// loadAll loads modules in the given order. The paths are relative to the directory.
func (m *modules) loadAll(paths []string) error {
	for _, p := range paths {
		if err := m.load(p); err != nil {
			return err
		}
	}
	return nil
}

// load loads one module. A loaded module is not an error.
func (m *modules) load(p string) error {
	f, err := os.Open(filepath.Join(m.dir, p))
	if err != nil {
		return err
	}
	defer f.Close()
	flags := 0
	if filepath.Ext(p) != ".ko" {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load module %s: %w", p, err)
	}
	return nil
}

// modprobeMain implements the program that the kernel runs to load a module. args contains
// options and a name or an alias, such as "crypto-crc32" or "rdma-link-rxe".
func modprobeMain(args []string) int {
	m := &modules{dir: runDir + "/modules"}
	if len(args) == 0 {
		return 1
	}
	if err := m.probe(args[len(args)-1]); err != nil {
		return 1 // the kernel requests many modules that do not exist
	}
	return 0
}

// probe loads the modules with a name or alias, and their dependencies.
func (m *modules) probe(name string) error {
	deps, err := kernel.ReadDep(filepath.Join(m.dir, "modules.dep"))
	if err != nil {
		return err
	}
	found := false
	names := m.aliases(name)
	for p, needs := range deps {
		if !slices.Contains(names, kernel.ModuleName(p)) {
			continue
		}
		for _, d := range slices.Backward(needs) {
			if err := m.load(d); err != nil {
				return err
			}
		}
		if err := m.load(p); err != nil {
			return err
		}
		found = true
	}
	if !found {
		return errors.New("no such module")
	}
	return nil
}

// aliases returns the modules with a name or alias.
func (m *modules) aliases(name string) []string {
	name = strings.ReplaceAll(name, "-", "_")
	names := []string{name}
	f, err := os.Open(filepath.Join(m.dir, "modules.alias"))
	if err != nil {
		return names
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		w := strings.Fields(sc.Text())
		if len(w) != 3 || w[0] != "alias" {
			continue
		}
		if ok, _ := path.Match(strings.ReplaceAll(w[1], "-", "_"), name); ok {
			names = append(names, w[2])
		}
	}
	return names
}
