// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kernel

import (
	"context"
	"errors"
	"path"
	"path/filepath"

	"purerdma/test/microvm/apt"
)

// unpackCompiler adds a compiler for the tree's architecture, from packages for this machine.
func (t *tree) unpackCompiler(ctx context.Context, machine *apt.Apt) error {
	noDocuments := func(name string) bool {
		shared, _ := path.Match("usr/share/*", path.Dir(name))
		return !shared
	}
	if err := machine.UnpackAll(ctx, t.dir, noDocuments, "gcc-"+t.on.Triplet); err != nil {
		return err
	}
	var err error
	for _, dir := range []string{"usr/bin", "usr/lib/gcc-cross/" + t.on.Triplet, "usr/" + t.on.Triplet + "/bin"} {
		err = errors.Join(err, wrapPrograms(filepath.Join(t.dir, dir), filepath.Join(t.dir, library)))
	}
	return err
}

// compiler returns the variables of make that select the compiler.
func (t *tree) compiler() []string {
	if t.on.Native() {
		return []string{"CC=gcc"}
	}
	prefix := filepath.Join(t.dir, "usr/bin", t.on.Triplet+"-")
	return []string{"ARCH=" + t.on.Name, "CROSS_COMPILE=" + prefix, "CC=" + prefix + "gcc"}
}
