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

// ModuleDir is where the modules are in the initramfs.
const ModuleDir = "/modules"

// Paths returns the paths, below k.Modules or of k.Extra, that loading the
// named modules takes, in that order. A name with a "?" in front may be
// missing, and so may one that is built into the kernel.
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
			return nil, fmt.Errorf("kernel %s has no module %s (looked in %s)", k.Release, n, k.Modules)
		}
		for _, d := range slices.Backward(deps[p]) {
			paths = append(paths, d)
		}
		paths = append(paths, p)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(paths, func(p string) bool { was := seen[p]; seen[p] = true; return was }), nil
}

// builtin returns the names of what could be modules but is built in.
func (k *Kernel) builtin() (map[string]bool, error) {
	list, err := readLines(filepath.Join(k.Modules, "modules.builtin"))
	m := map[string]bool{}
	for _, p := range list {
		m[ModuleName(p)] = true
	}
	return m, err
}

// WriteImage writes an initramfs that holds the modules named. It is not
// compressed: under software emulation the host reads faster than the guest
// inflates.
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

// Plain returns the name of a module's file without a compression's suffix.
func Plain(path string) string {
	if ext := filepath.Ext(path); decompressors[ext] != nil {
		return strings.TrimSuffix(path, ext)
	}
	return path
}
