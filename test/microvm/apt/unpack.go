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
	u := unpacker{clean: mergeUsr, keep: keep, room: maxUnpacked}
	return u.run(ctx, deb, root, "dpkg-deb", "--fsys-tarfile", deb)
}

// UnpackSource unpacks the .tar.xz file of a source package into root. keep selects the files to unpack by their clean names. A nil keep
// selects all files.
func UnpackSource(ctx context.Context, archive, root string, keep func(name string) bool) error {
	u := unpacker{clean: clean, keep: keep, room: maxUnpacked}
	return u.run(ctx, archive, root, "xz", "-dcq", archive)
}

// run unpacks the archive that the program writes to its standard output into dir. file is the
// archive's name in errors.
func (u *unpacker) run(ctx context.Context, file, dir, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	err = u.into(dir, out)
	if err != nil {
		cmd.Process.Kill()
	}
	if werr := cmd.Wait(); err == nil && werr != nil {
		err = fmt.Errorf("%w: %s", werr, lastLines(stderr.String(), 2))
	}
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", filepath.Base(file), err)
	}
	return nil
}

// maxUnpacked bounds the bytes of one archive's files. An archive can describe a file of any
// size in a few bytes.
const maxUnpacked = 16 << 30

// errTooMuch reports an archive that unpacks to more than maxUnpacked bytes.
var errTooMuch = errors.New("the files of the archive are too large")

// An unpacker writes the entries of one archive. It does not follow symbolic links out of its
// root, because an archive may contain such a link and then an entry below it.
type unpacker struct {
	root  *os.Root
	clean func(string) string // converts a name of the archive to a path below the root
	keep  func(string) bool   // nil for all
	room  int64               // remaining bytes for files
}

// into writes the archive's entries below dir.
func (u *unpacker) into(dir string, r io.Reader) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var err error
	if u.root, err = os.OpenRoot(dir); err != nil {
		return err
	}
	return errors.Join(u.untar(r), u.root.Close())
}

func (u *unpacker) untar(r io.Reader) error {
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			// The program must be able to write the archive's padding.
			_, err = io.Copy(io.Discard, r)
			return err
		}
		if err != nil {
			return err
		}
		name := u.clean(h.Name)
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
		return u.root.Link(u.clean(h.Linkname), name)
	case tar.TypeReg:
		// The owner needs read access, because QEMU passes the file on and the owner may not be
		// root.
		f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, h.FileInfo().Mode().Perm()|0o400)
		if err != nil {
			return err
		}
		return errors.Join(u.copy(f, tr), f.Close())
	}
	return nil // packages and sources contain no device nodes or similar files
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
	name = clean(name)
	first, rest, more := strings.Cut(name, "/")
	switch first {
	case "bin", "sbin", "lib", "lib32", "lib64", "libx32":
		if !more {
			return "usr/" + first
		}
		return "usr/" + first + "/" + rest
	}
	return name
}

// clean returns the clean, relative name of an archive's file. The name does not begin with "..".
func clean(name string) string {
	if name = path.Clean("/" + name)[1:]; name == "" {
		return "."
	}
	return name
}
