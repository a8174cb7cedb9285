// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A file is a file of an archive.
type file struct {
	from string // path on this machine
	name string // in the archive
	mode int64
}

// writeArchive writes files to an archive, in the directory dir of it. All files have the time
// when, and no owner.
func writeArchive(to, dir string, when time.Time, files []file) (err error) {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(z)
	for _, in := range files {
		b, err := os.ReadFile(in.from)
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: dir + "/" + in.name, Size: int64(len(b)), Mode: in.mode, ModTime: when, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return z.Close()
}

// compare returns an error unless two directories have the same files.
func compare(a, b string) error {
	first, err := os.ReadDir(a)
	if err != nil {
		return err
	}
	second, err := os.ReadDir(b)
	if err != nil {
		return err
	}
	if got, want := names(second), names(first); !slices.Equal(got, want) {
		return fmt.Errorf("second build: files %q, want %q", got, want)
	}
	for _, e := range first {
		want, err := os.ReadFile(filepath.Join(a, e.Name()))
		if err != nil {
			return err
		}
		got, err := os.ReadFile(filepath.Join(b, e.Name()))
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("second build: %s differs: SHA-256 %x, want %x", e.Name(), sha256.Sum256(got), sha256.Sum256(want))
		}
	}
	return nil
}

func names(entries []os.DirEntry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// writeSums writes SHA256SUMS for the files of a directory, in the format of sha256sum(1).
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(b), e.Name())
		fmt.Printf("%x  %s\n", sha256.Sum256(b), filepath.Join(dir, e.Name()))
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), sums.Bytes(), 0o644)
}
