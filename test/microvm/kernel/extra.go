// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kernel

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// add adds the module in file to the kernel.
func (k *Kernel) add(file string) {
	if k.Extra == nil {
		k.Extra = map[string]string{}
	}
	k.Extra[filepath.Join("extra", filepath.Base(file))] = file
}

// State returns a text that changes when the modules change. The user may rebuild a custom
// kernel's modules.
func (k *Kernel) State() (string, error) {
	files := append(slices.Sorted(maps.Values(k.Extra)), filepath.Join(k.Modules, "modules.dep"))
	var b strings.Builder
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s %d\n", f, st.ModTime().UnixNano())
	}
	return b.String(), nil
}

// file returns the file of a module path from Paths.
func (k *Kernel) file(path string) string {
	if f, ok := k.Extra[path]; ok {
		return f
	}
	return filepath.Join(k.Modules, path)
}

// has reports whether the kernel has the module, possibly built in.
func (k *Kernel) has(name string) bool {
	paths, err := k.Paths([]string{"?" + name})
	builtin, berr := k.builtin()
	return err == nil && len(paths) > 0 || berr == nil && builtin[ModuleName(name)]
}

// needs returns the dependencies of the module in file, as in modules.dep. paths maps names to
// paths of the kernel's modules. deps is its modules.dep.
func needs(file string, paths map[string]string, deps map[string][]string) (list []string, err error) {
	info, err := modinfo(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, d := range info["depends"] {
		for _, n := range splitDepends(d) {
			if p, ok := paths[n]; ok { // otherwise it is built in
				list = append(append(list, p), deps[p]...)
			}
		}
	}
	return list, nil
}
