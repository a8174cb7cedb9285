// SPDX-License-Identifier: Apache-2.0

//go:build linux

package apt

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// Unpack unpacks the .deb file into root. It normalizes names as on a system with a merged
// /usr, so that lib/x becomes usr/lib/x. Otherwise packages with files in lib/ would create a
// real directory. An overlay of this directory over a root whose /lib is a symbolic link would
// hide the link and all files behind it.
//
// keep selects the files to unpack by their normalized names without a leading slash. A nil
// keep selects all files.
func Unpack(ctx context.Context, deb, root string, keep func(name string) bool) error {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = untar(out, root, keep)
	if err != nil {
		cmd.Process.Kill()
	}
	if werr := cmd.Wait(); err == nil && werr != nil {
		err = fmt.Errorf("%w: %s", werr, lastLines(stderr.String(), 2))
	}
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", filepath.Base(deb), err)
	}
	return nil
}

// maxUnpacked bounds the bytes of one package's files. An archive can describe a file of any
// size in a few bytes.
const maxUnpacked = 16 << 30

// errTooMuch reports a package that unpacks to more than maxUnpacked bytes.
var errTooMuch = errors.New("the files of the package are too large")

// untar writes the archive's entries below dir.
func untar(r io.Reader, dir string, keep func(string) bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	u := unpacker{root: root, keep: keep, room: maxUnpacked}
	return errors.Join(u.untar(r), root.Close())
}

// An unpacker writes the entries of one archive. It does not follow symbolic links out of its
// root, because an archive may contain such a link and then an entry below it.
type unpacker struct {
	root *os.Root
	keep func(string) bool // nil for all
	room int64             // remaining bytes for files
}

func (u *unpacker) untar(r io.Reader) error {
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			// dpkg-deb must be able to write its padding.
			_, err = io.Copy(io.Discard, r)
			return err
		}
		if err != nil {
			return err
		}
		name := mergeUsr(h.Name)
		if name == "." || u.keep != nil && h.Typeflag != tar.TypeDir && !u.keep(name) {
			continue
		}
		if err := u.entry(tr, h, name); err != nil {
			return err
		}
	}
}

// entry writes one entry.
func (u *unpacker) entry(tr *tar.Reader, h *tar.Header, name string) error {
	if h.Typeflag == tar.TypeDir {
		return nil // created with its first entry
	}
	if err := u.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if err := u.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch h.Typeflag {
	case tar.TypeSymlink:
		return u.root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return u.root.Link(mergeUsr(h.Linkname), name)
	case tar.TypeReg:
		// The owner needs read access, because QEMU passes the file on and the owner may not be
		// root.
		f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, h.FileInfo().Mode().Perm()|0o400)
		if err != nil {
			return err
		}
		return errors.Join(u.copy(f, tr), f.Close())
	}
	return nil // Debian's packages contain no device nodes or similar files
}

// copy writes the contents of one file.
func (u *unpacker) copy(f *os.File, tr *tar.Reader) error {
	n, err := io.Copy(f, io.LimitReader(tr, u.room+1))
	if u.room -= n; u.room < 0 {
		return fmt.Errorf("%s: %w", f.Name(), errTooMuch)
	}
	return err
}

// mergeUsr returns the clean, relative name of a package's file in a system with a merged /usr.
func mergeUsr(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	first, rest, more := strings.Cut(name, "/")
	switch first {
	case "":
		return "."
	case "bin", "sbin", "lib", "lib32", "lib64", "libx32":
		if !more {
			return "usr/" + first
		}
		return "usr/" + first + "/" + rest
	}
	return name
}
