// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"purerdma/test/microvm/arch"
	"purerdma/test/microvm/cache"
	"purerdma/test/microvm/cpio"
	"purerdma/test/microvm/elfdep"
	"purerdma/test/microvm/kernel"
	"purerdma/test/microvm/wire"
)

// moduleImage returns the cached initramfs with the modules at paths.
func moduleImage(c *cache.Cache, k *kernel.Kernel, paths []string) (string, error) {
	state, err := k.State()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(state + strings.Join(paths, "\n")))
	name := c.Path("image", fmt.Sprintf("%s-%x.cpio", k.Release, sum[:8]))
	return c.File(name, func(w io.Writer) error { return k.WriteImage(w, paths) })
}

// writeInitrd writes the initramfs of one run to path. It consists of the modules' image, this
// program for the guest's architecture as /init, the configuration and, for an empty root, the program to run.
func (o *Options) writeInitrd(path, image string, cfg *wire.Config, program string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	src, err := os.Open(image)
	if err != nil {
		return err
	}
	defer src.Close()
	if _, err := io.Copy(f, src); err != nil {
		return err
	}
	w := cpio.NewWriter(f)
	if err := addInit(w, o.Arch); err != nil {
		return err
	}
	if program != "" {
		if err := w.CopyFile("program", program); err != nil {
			return err
		}
	}
	b, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	if err := w.File(wire.ConfigPath, 0o600, b); err != nil {
		return err
	}
	return w.Close()
}

// addInit adds the running executable as /init, with its libraries if it was built with cgo. For
// another architecture it adds the executable next to it with the suffix of the architecture.
func addInit(w *cpio.Writer, on *arch.Arch) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	if !on.Native() {
		exe += on.Suffix()
		if _, err := os.Stat(exe); err != nil {
			return fmt.Errorf("rdmavm for %s: %w (build it: GOARCH=%s CGO_ENABLED=0 go build -o %s purerdma/cmd/rdmavm)", on.Name, err, on.Name, exe)
		}
	}
	files, err := elfdep.Files(exe)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := w.CopyFile(f, f); err != nil {
			return err
		}
	}
	return w.CopyFile("init", exe)
}
