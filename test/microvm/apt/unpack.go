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

// Unpack unpacks the .deb file into root. Names are normalised as on a
// system with a merged /usr: lib/x becomes usr/lib/x. Packages that still
// ship lib/ would otherwise make a real directory that, stacked over a root
// whose /lib is a symbolic link, hides the link and all behind it.
//
// keep says which files to unpack (nil: all); it sees normalised names
// without a leading slash.
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

// maxUnpacked bounds the bytes of one package's files. An archive can describe a file of
// any size in a few bytes.
const maxUnpacked = 16 << 30

// errTooMuch says that a package unpacks to more than maxUnpacked.
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

// An unpacker writes the entries of one archive. It follows no symbolic link that leads
// out of its root: an archive may bring one, and then an entry below it.
type unpacker struct {
	root *os.Root
	keep func(string) bool // nil: all
	room int64             // how many more bytes of files it takes
}

func (u *unpacker) untar(r io.Reader) error {
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			// dpkg-deb must not be left writing its padding to nobody.
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
		return nil // made when something is put into it
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
		// Readable by the owner, who need not be root: QEMU has to
		// hand it on.
		f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, h.FileInfo().Mode().Perm()|0o400)
		if err != nil {
			return err
		}
		return errors.Join(u.copy(f, tr), f.Close())
	}
	return nil // device nodes and the like: not in Debian's packages
}

// copy writes the contents of one file.
func (u *unpacker) copy(f *os.File, tr *tar.Reader) error {
	n, err := io.Copy(f, io.LimitReader(tr, u.room+1))
	if u.room -= n; u.room < 0 {
		return fmt.Errorf("%s: %w", f.Name(), errTooMuch)
	}
	return err
}

// mergeUsr returns the clean, relative name under which a file of a package
// stands in a system with a merged /usr.
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
