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

// untar writes the archive's entries below root.
func untar(r io.Reader, root string, keep func(string) bool) error {
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
		if name == "." || keep != nil && h.Typeflag != tar.TypeDir && !keep(name) {
			continue
		}
		if err := entry(tr, h, filepath.Join(root, name), root); err != nil {
			return err
		}
	}
}

// entry writes one entry of an archive to dst.
func entry(tr *tar.Reader, h *tar.Header, dst, root string) error {
	if h.Typeflag == tar.TypeDir {
		return nil // made when something is put into it
	}
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	if err := os.Remove(dst); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch h.Typeflag {
	case tar.TypeSymlink:
		return os.Symlink(h.Linkname, dst)
	case tar.TypeLink:
		return os.Link(filepath.Join(root, mergeUsr(h.Linkname)), dst)
	case tar.TypeReg:
		// Readable by the owner, who need not be root: QEMU has to
		// hand it on.
		f, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, h.FileInfo().Mode().Perm()|0o400)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, tr)
		return errors.Join(err, f.Close())
	}
	return nil // device nodes and the like: not in Debian's packages
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
