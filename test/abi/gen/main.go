// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Gen measures the kernel's RDMA headers and writes the golden files that the
// tests of package abi compare its mirrors with.
//
//	go run ./test/abi/gen
//
// It downloads the headers of the newest kernel of each Debian release in its table. It also downloads the
// headers of each version that has a golden file and is still available. It compiles them for every machine
// with a compiler that it downloads. It installs nothing, and keeps all files in the user's cache directory.
// The compiler's DWARF output has the offset of each member and the value of each enumerator, so that none
// can be missed.
//
// If a golden file changes without a new version, this program has a fault. git diff shows such a change.
//
// It also writes the table of mirrors, test/abi/mirrors/table.go, from the
// comments of package abi. With -mirrors it writes only this table, and needs no network.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"purerdma/test/abi/golden"
	"purerdma/test/abi/source"
)

func main() {
	mirrors := flag.Bool("mirrors", false, "write the table of mirrors only")
	refresh := flag.Bool("refresh", false, "fetch the package lists again")
	flag.Parse()
	if err := run(context.Background(), *mirrors, *refresh); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, mirrorsOnly, refresh bool) error {
	root, err := source.Root()
	if err != nil {
		return err
	}
	if err := writeMirrors(root); err != nil || mirrorsOnly {
		return err
	}
	testdata := filepath.Join(root, "abi/testdata")
	have, err := golden.ReadDir(testdata)
	if err != nil {
		return err
	}
	s, err := openStore(ctx, refresh)
	if err != nil {
		return err
	}
	versions, gone, err := s.versions(ctx, have)
	if err != nil {
		return err
	}
	for _, v := range gone {
		fmt.Printf("%s: no longer to be had, its golden file stays\n", golden.FileName(v))
	}
	for _, v := range versions {
		f, err := s.measure(ctx, v)
		if err != nil {
			return fmt.Errorf("%s %s: %w", golden.Package, v.version, err)
		}
		if err := writeGolden(testdata, f, have); err != nil {
			return err
		}
	}
	return nil
}

// writeGolden writes the file and reports whether it has changed. It writes no file for a new version of a
// kernel with unchanged headers.
func writeGolden(dir string, f *golden.File, have []*golden.File) error {
	text := []byte(f.Text())
	name := filepath.Join(dir, f.Name())
	what := "unchanged"
	switch old, err := os.ReadFile(name); {
	case os.IsNotExist(err):
		for _, h := range have {
			if h.Kernel() == f.Kernel() && h.SameHeaders(f) {
				fmt.Printf("%s: would be as %s\n", f.Name(), h.Name())
				return nil
			}
		}
		what = "new"
	case err != nil:
		return err
	case !bytes.Equal(old, text):
		what = "CHANGED"
	}
	fmt.Printf("%s: %s\n", f.Name(), what)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}

// writeMirrors writes the table of mirrors.
func writeMirrors(root string) error {
	pkg, err := source.Load(root)
	if err != nil {
		return err
	}
	text, err := pkg.Table()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, source.TableFile), text, 0o644)
}
