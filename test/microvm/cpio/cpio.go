// SPDX-License-Identifier: Apache-2.0

// Package cpio writes "newc" archives, which the Linux kernel unpacks as its initramfs.
//
// The kernel accepts several archives one after the other. Later files replace earlier ones. It
// ignores an archive that does not start at a multiple of four bytes. Close therefore pads, so
// that archives of this package can be concatenated.
package cpio

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// File types in the mode field.
const (
	typeDir  = 0o040000
	typeReg  = 0o100000
	typeLink = 0o120000
)

// A Writer writes one archive. It creates parent directories as needed.
type Writer struct {
	w    io.Writer
	n    int64 // bytes written
	ino  uint32
	dirs map[string]bool
	err  error
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: w, dirs: map[string]bool{".": true, "/": true, "": true}}
}

// Dir adds a directory and its parents.
func (w *Writer) Dir(name string) error {
	name = clean(name)
	if w.dirs[name] {
		return w.err
	}
	w.Dir(filepath.Dir(name))
	w.dirs[name] = true
	w.header(name, typeDir|0o755, 0)
	return w.err
}

// File adds a regular file of the given permissions.
func (w *Writer) File(name string, perm os.FileMode, data []byte) error {
	w.Dir(filepath.Dir(clean(name)))
	w.header(clean(name), typeReg|uint32(perm.Perm()), int64(len(data)))
	w.write(data)
	w.pad()
	return w.err
}

// CopyFile adds the host's file path under name, with its permissions.
func (w *Writer) CopyFile(name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	w.Dir(filepath.Dir(clean(name)))
	w.header(clean(name), typeReg|uint32(st.Mode().Perm()), st.Size())
	if w.err == nil {
		// A file whose size changes during the copy would corrupt all following entries.
		n, err := io.Copy(w.w, io.LimitReader(f, st.Size()))
		w.n += n
		if w.err = err; err == nil && n != st.Size() {
			w.err = fmt.Errorf("%s: file shrank during the copy", path)
		}
	}
	w.pad()
	return w.err
}

// Symlink adds a symbolic link.
func (w *Writer) Symlink(name, target string) error {
	w.Dir(filepath.Dir(clean(name)))
	w.header(clean(name), typeLink|0o777, int64(len(target)))
	w.write([]byte(target))
	w.pad()
	return w.err
}

// Close writes the trailer and pads the archive. It does not close the
// underlying writer.
func (w *Writer) Close() error {
	w.header("TRAILER!!!", 0, 0)
	return w.err
}

// header writes the 110 bytes of ASCII that precede every entry, and its name.
func (w *Writer) header(name string, mode uint32, size int64) {
	if size >= 1<<32 && w.err == nil {
		w.err = fmt.Errorf("%s: too large for a cpio archive", name)
	}
	w.ino++
	nlink := 1
	if mode&typeDir == typeDir {
		nlink = 2
	}
	w.write(fmt.Appendf(nil, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		w.ino, mode, 0, 0, nlink, 0, size, 0, 0, 0, 0, len(name)+1, 0, name))
	w.pad()
}

func (w *Writer) write(b []byte) {
	if w.err == nil {
		var n int
		n, w.err = w.w.Write(b)
		w.n += int64(n)
	}
}

// pad pads to a multiple of four bytes.
func (w *Writer) pad() { w.write(make([]byte, -w.n&3)) }

func clean(name string) string {
	return strings.TrimPrefix(filepath.Clean("/"+name), "/")
}
