// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"purerdma/test/microvm/kernel"
)

// modules loads modules from a directory, with parameters by the modules' names.
type modules struct {
	dir    string
	params map[string]string
}

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
	if err := unix.FinitModule(int(f.Fd()), m.params[kernel.ModuleName(p)], flags); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load module %s: %w", p, err)
	}
	return nil
}

// modprobeMain implements modprobe(8), which the kernel and programs run. The kernel passes "-q",
// "--" and a name or an alias, such as "crypto-crc32" or "rdma-link-rxe". A program may pass a name
// and parameters of the module, "-a" and several names, or "-r" and names of modules to unload.
func modprobeMain(args []string, stderr io.Writer) int {
	var quiet, all, remove bool
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		for _, o := range args[0][1:] {
			switch o {
			case 'q':
				quiet = true
			case 'a':
				all = true
			case 'r':
				remove = true
			case '-', 'v':
			default:
				fmt.Fprintf(stderr, "modprobe: unknown option %s\n", args[0])
				return 1
			}
		}
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(stderr, "usage: modprobe [-q] NAME [PARAMETER=VALUE]..., or modprobe -a|-r NAME...")
		return 1
	}
	m := &modules{dir: runDir + "/modules"}
	load := m.probe
	switch {
	case remove:
		load = func(name string) error { return unix.DeleteModule(kernel.ModuleName(name), unix.O_NONBLOCK) }
	case !all:
		m.params = map[string]string{kernel.ModuleName(args[0]): strings.Join(args[1:], " ")}
		args = args[:1]
	}
	for _, name := range args {
		if err := load(name); err != nil {
			if !quiet { // the kernel requests many modules that do not exist
				fmt.Fprintf(stderr, "modprobe: %s: %v\n", name, err)
			}
			return 1
		}
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
