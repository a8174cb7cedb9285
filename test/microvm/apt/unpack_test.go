// SPDX-License-Identifier: Apache-2.0

//go:build linux

package apt

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// archive returns an archive with the given entries.
func archive(tb testing.TB, headers ...*tar.Header) []byte {
	tb.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		if err := w.WriteHeader(h); err != nil {
			tb.Fatalf("w.WriteHeader: %v", err)
		}
		w.Write(bytes.Repeat([]byte("h"), int(h.Size)))
	}
	if err := w.Close(); err != nil {
		tb.Fatalf("w.Close: %v", err)
	}
	return buf.Bytes()
}

// escapes returns archives with a symbolic link out of the root, followed by an entry below it.
// outside is the link's target.
func escapes(outside string) map[string][]*tar.Header {
	link := func(name string) *tar.Header {
		return &tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: outside}
	}
	return map[string][]*tar.Header{
		"a file":           {link("./usr/share/x"), {Name: "./usr/share/x/new", Typeflag: tar.TypeReg, Mode: 0o755, Size: 2}},
		"a directory":      {link("./usr/share/x"), {Name: "./usr/share/x/new/a", Typeflag: tar.TypeReg, Mode: 0o755, Size: 2}},
		"a hard link from": {link("./usr/share/y"), {Name: "./usr/share/leak", Typeflag: tar.TypeLink, Linkname: "./usr/share/y/secret"}},
		"a hard link to": {link("./usr/share/y"), {Name: "./a", Typeflag: tar.TypeReg, Size: 1},
			{Name: "./usr/share/y/new", Typeflag: tar.TypeLink, Linkname: "./a"}},
		"a removal": {link("./usr/share/z"), {Name: "./usr/share/z/secret", Typeflag: tar.TypeSymlink, Linkname: "x"}},
		"a file in the place of /lib": {{Name: "./usr/lib", Typeflag: tar.TypeSymlink, Linkname: outside},
			{Name: "./lib/new", Typeflag: tar.TypeReg, Mode: 0o755, Size: 2}},
	}
}

// outsider creates a root, and next to it a directory that unpacking must not change.
func outsider(tb testing.TB) (root, outside string) {
	tb.Helper()
	dir := tb.TempDir()
	root, outside = filepath.Join(dir, "root"), filepath.Join(dir, "outside")
	if err := errors.Join(os.Mkdir(root, 0o755), os.Mkdir(outside, 0o755),
		os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o600)); err != nil {
		tb.Fatalf("os.Mkdir, os.WriteFile: %v", err)
	}
	return root, outside
}

// untouched checks that the outside directory is unchanged, and that no file below the root is
// its secret.
func untouched(t *testing.T, root, outside string) {
	t.Helper()
	list, err := os.ReadDir(outside)
	if err != nil || len(list) != 1 {
		t.Errorf("outside = %v, %v, want one file", list, err)
	}
	secret, err := os.Lstat(filepath.Join(outside, "secret"))
	if err != nil || !secret.Mode().IsRegular() || secret.Size() != 1 {
		t.Fatalf("the file outside = %v, %v, want 1 byte", secret, err)
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && os.SameFile(info, secret) {
			t.Errorf("%s is the outside file", path)
		}
		return err
	})
	if err != nil {
		t.Errorf("filepath.WalkDir: %v", err)
	}
}

// unpack writes the archive of a package below dir.
func unpack(b []byte, dir string) error {
	u := unpacker{clean: mergeUsr, room: maxUnpacked}
	return u.into(dir, bytes.NewReader(b))
}

// TestLinksLeadNowhere checks that no entry of a package is written through a symbolic link out
// of the root.
func TestLinksLeadNowhere(t *testing.T) {
	for _, relative := range []bool{false, true} {
		for name := range escapes("") {
			kind := "absolute"
			if relative {
				kind = "relative"
			}
			t.Run(kind+" link, "+name, func(t *testing.T) {
				root, outside := outsider(t)
				target := outside
				if relative {
					target = "../../../outside"
					if strings.HasSuffix(name, "/lib") {
						target = "../../outside"
					}
				}
				if err := unpack(archive(t, escapes(target)[name]...), root); err == nil {
					t.Error("unpack = nil, want an error")
				}
				untouched(t, root, outside)
			})
		}
	}
}

// TestLinkWithin checks that links within the root are followed and replaced.
func TestLinkWithin(t *testing.T) {
	root := t.TempDir()
	err := unpack(archive(t,
		&tar.Header{Name: "./usr/lib64", Typeflag: tar.TypeSymlink, Linkname: "lib"},
		&tar.Header{Name: "./usr/lib/a", Typeflag: tar.TypeReg, Size: 1},
		&tar.Header{Name: "./lib64/b", Typeflag: tar.TypeReg, Size: 1},
		&tar.Header{Name: "./etc/out", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		&tar.Header{Name: "./etc/out", Typeflag: tar.TypeReg, Size: 3},
	), filepath.Join(root, "new"))
	if err != nil {
		t.Fatalf("unpack: %v", err)
	}
	for name, want := range map[string]int{"usr/lib/a": 1, "usr/lib/b": 1, "etc/out": 3} {
		if b, err := os.ReadFile(filepath.Join(root, "new", name)); len(b) != want {
			t.Errorf("%s = %d bytes, %v, want %d", name, len(b), err, want)
		}
	}
}

// TestUnpackSource checks that the names of a source package's files are unchanged, and that no
// link leads out of the root. A shell script replaces xz.
func TestUnpackSource(t *testing.T) {
	programs := t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "xz"), []byte("#!/bin/sh\nexec cat \"$2\"\n"), 0o755); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	root, outside := outsider(t)
	file := filepath.Join(t.TempDir(), "source.tar.xz")
	source := func(headers ...*tar.Header) error {
		if err := os.WriteFile(file, archive(t, headers...), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		return UnpackSource(t.Context(), file, root, func(name string) bool { return strings.HasPrefix(name, "lib/") })
	}
	err := source(&tar.Header{Name: "lib/", Typeflag: tar.TypeDir},
		&tar.Header{Name: "lib/a", Typeflag: tar.TypeReg, Mode: 0o644, Size: 2},
		&tar.Header{Name: "lib/b/c", Typeflag: tar.TypeLink, Linkname: "lib/a"},
		&tar.Header{Name: "libs/d", Typeflag: tar.TypeReg, Mode: 0o644, Size: 2},
		&tar.Header{Name: "lib/outside", Typeflag: tar.TypeSymlink, Linkname: outside})
	if err != nil {
		t.Fatalf("UnpackSource: %v", err)
	}
	for _, name := range []string{"lib/a", "lib/b/c"} {
		if b, err := os.ReadFile(filepath.Join(root, name)); string(b) != "hh" {
			t.Errorf("content of %s = %q, %v, want hh", name, b, err)
		}
	}
	if list, err := os.ReadDir(root); len(list) != 1 {
		t.Errorf("names in the root = %v, %v, want lib", list, err)
	}
	if err := source(&tar.Header{Name: "lib/outside/new", Typeflag: tar.TypeReg, Size: 2}); err == nil {
		t.Error("UnpackSource of a file below the link = nil, want an error")
	}
	untouched(t, root, outside)
	if err := os.Remove(file); err != nil {
		t.Fatalf("os.Remove: %v", err)
	}
	if err := UnpackSource(t.Context(), file, root, nil); err == nil {
		t.Error("UnpackSource of no file = nil, want an error")
	}
}

// TestTooMuch checks the limit for an archive's files, including headers that describe more
// bytes than the archive contains.
func TestTooMuch(t *testing.T) {
	dir, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatalf("os.OpenRoot: %v", err)
	}
	defer dir.Close()
	u := unpacker{root: dir, clean: clean, room: 10}
	sizes := func(sizes ...int64) *bytes.Reader {
		var list []*tar.Header
		for i, n := range sizes {
			list = append(list, &tar.Header{Name: string(rune('a' + i)), Typeflag: tar.TypeReg, Size: n})
		}
		return bytes.NewReader(archive(t, list...))
	}
	if err := u.untar(sizes(4, 6)); err != nil || u.room != 0 {
		t.Errorf("untar of 10 bytes = %v, room for %d, want 0", err, u.room)
	}
	if err := u.untar(sizes(0, 1)); !errors.Is(err, errTooMuch) {
		t.Errorf("untar of 11 bytes = %v, want errTooMuch", err)
	}
}

// FuzzUntar checks that unpacking any archive changes nothing outside of the root.
func FuzzUntar(f *testing.F) {
	for _, target := range []string{"../../../outside", "../outside", "/nonexistent"} {
		for _, list := range escapes(target) {
			f.Add(archive(f, list...))
		}
	}
	f.Add(archive(f, &tar.Header{Name: "./dev/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3},
		&tar.Header{Name: "../../a", Typeflag: tar.TypeReg, Size: 5}, &tar.Header{Name: "./a", Typeflag: tar.TypeLink, Linkname: "../../a"}))
	f.Add(archive(f, &tar.Header{Name: "sparse", Typeflag: tar.TypeReg, Size: 7, Format: tar.FormatPAX, PAXRecords: map[string]string{"SCHILY.x": "y"}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		root, outside := outsider(t)
		dir, err := os.OpenRoot(root)
		if err != nil {
			t.Fatalf("os.OpenRoot: %v", err)
		}
		defer dir.Close()
		u := unpacker{root: dir, clean: mergeUsr, room: 1 << 16}
		_ = u.untar(bytes.NewReader(b))
		untouched(t, root, outside)
	})
}
