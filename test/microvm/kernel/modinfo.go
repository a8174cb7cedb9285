// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kernel

import (
	"bufio"
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Index writes modules.dep and modules.alias for the modules below dir, like depmod. Debian's
// packages create them only on installation, and the machine may not have depmod. rdmavm in the
// guest reads both files, and so can modprobe(8).
func Index(dir string) error {
	paths := map[string]string{} // module name -> path below dir
	info := map[string]map[string][]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".ko") {
			return err
		}
		mi, err := modinfo(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		rel, err := filepath.Rel(dir, p)
		name := ModuleName(p)
		paths[name], info[name] = rel, mi
		return err
	})
	if err != nil {
		return err
	}
	var dep, alias bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		fmt.Fprintf(&dep, "%s:", paths[name])
		for _, n := range closure(name, info) {
			if p, ok := paths[n]; ok {
				fmt.Fprintf(&dep, " %s", p)
			}
		}
		fmt.Fprintln(&dep)
		for _, a := range info[name]["alias"] {
			fmt.Fprintf(&alias, "alias %s %s\n", a, name)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "modules.dep"), dep.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "modules.alias"), alias.Bytes(), 0o644)
}

// closure returns the dependencies of module name in the order of modules.dep. Each module
// precedes its own dependencies.
func closure(name string, info map[string]map[string][]string) []string {
	var order []string // dependencies first
	seen := map[string]bool{}
	var visit func(string)
	visit = func(n string) {
		if seen[n] {
			return
		}
		seen[n] = true
		for _, list := range info[n]["depends"] {
			for _, d := range splitDepends(list) {
				visit(d)
			}
		}
		order = append(order, n)
	}
	visit(name)
	slices.Reverse(order)
	return order[1:]
}

// splitDepends returns the names in the "depends" field of a module.
func splitDepends(list string) (names []string) {
	for d := range strings.SplitSeq(list, ",") {
		if d != "" {
			names = append(names, ModuleName(d))
		}
	}
	return names
}

// ModuleName returns the kernel's name of the module in a file or of a module named by the
// user. Dashes and underscores are equivalent.
func ModuleName(path string) string {
	base, _, _ := strings.Cut(filepath.Base(path), ".ko")
	return strings.ReplaceAll(base, "-", "_")
}

// modinfo returns the key=value strings in a module's .modinfo section.
func modinfo(path string) (map[string][]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := f.Section(".modinfo")
	if s == nil {
		return nil, fmt.Errorf("no .modinfo section")
	}
	b, err := s.Data()
	if err != nil {
		return nil, err
	}
	m := map[string][]string{}
	for kv := range strings.SplitSeq(string(b), "\x00") {
		if k, v, ok := strings.Cut(kv, "="); ok && (k == "depends" || k == "alias") {
			m[k] = append(m[k], v)
		}
	}
	return m, nil
}

// ReadDep reads a modules.dep. It maps a path to the paths of its dependencies.
func ReadDep(path string) (map[string][]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	deps := map[string][]string{}
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if p, list, ok := strings.Cut(sc.Text(), ":"); ok {
			deps[p] = strings.Fields(list)
		}
	}
	return deps, sc.Err()
}

// readLines returns the lines of a small file.
func readLines(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	return strings.Fields(string(b)), err
}
