// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kernel

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"purerdma/test/microvm/cpio"
)

// ModuleDir is the directory of the modules in the initramfs.
const ModuleDir = "/modules"

// Paths returns the paths of the named modules and their dependencies in loading order. The
// paths are relative to k.Modules or are keys of k.Extra. A module may be missing if its name
// has a "?" in front or if it is built into the kernel.
func (k *Kernel) Paths(names []string) ([]string, error) {
	deps, err := ReadDep(filepath.Join(k.Modules, "modules.dep"))
	if err != nil {
		return nil, err
	}
	byName := map[string]string{}
	for p := range deps {
		byName[ModuleName(p)] = p
	}
	builtin, err := k.builtin()
	if err != nil {
		return nil, err
	}
	for p, file := range k.Extra {
		if deps[p], err = needs(file, byName, deps); err != nil {
			return nil, err
		}
		byName[ModuleName(p)] = p
	}
	var paths []string
	for _, n := range names {
		n, optional := strings.CutPrefix(n, "?")
		p, ok := byName[ModuleName(n)]
		if !ok && (optional || builtin[ModuleName(n)]) {
			continue
		}
		if !ok {
			return nil, fmt.Errorf("kernel %s has no module %s in %s", k.Release, n, k.Modules)
		}
		for _, d := range slices.Backward(deps[p]) {
			paths = append(paths, d)
		}
		paths = append(paths, p)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(paths, func(p string) bool { was := seen[p]; seen[p] = true; return was }), nil
}

// builtin returns the names of the modules that are built into the kernel.
func (k *Kernel) builtin() (map[string]bool, error) {
	list, err := readLines(filepath.Join(k.Modules, "modules.builtin"))
	m := map[string]bool{}
	for _, p := range list {
		m[ModuleName(p)] = true
	}
	return m, err
}

// WriteImage writes an initramfs with the named modules. It is not compressed, because under
// software emulation the host reads faster than the guest decompresses.
func (k *Kernel) WriteImage(w io.Writer, paths []string) error {
	cw := cpio.NewWriter(w)
	for _, p := range paths {
		name, file := filepath.Join(ModuleDir, Plain(p)), k.file(p)
		if Plain(p) == p {
			if err := cw.CopyFile(name, file); err != nil {
				return err
			}
			continue
		}
		tool := decompressors[filepath.Ext(p)]
		b, err := exec.Command(tool[0], append(tool[1:len(tool):len(tool)], "-c", file)...).Output()
		if err != nil {
			return fmt.Errorf("%s of %s: %w", tool[0], file, err)
		}
		if err := cw.File(name, 0o644, b); err != nil {
			return err
		}
	}
	for _, d := range []string{"proc", "sys", "dev", "root"} {
		if err := cw.Dir(d); err != nil {
			return err
		}
	}
	return cw.Close()
}

// Plain returns a module's file name without a compression suffix.
func Plain(path string) string {
	if ext := filepath.Ext(path); decompressors[ext] != nil {
		return strings.TrimSuffix(path, ext)
	}
	return path
}
