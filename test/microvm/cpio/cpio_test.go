// SPDX-License-Identifier: Apache-2.0

package cpio

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// parse reads an archive like the kernel.
func parse(t *testing.T, b []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	for len(b) > 0 {
		field := func(i int) int {
			n, err := strconv.ParseInt(string(b[6+8*i:14+8*i]), 16, 64)
			if err != nil {
				t.Fatalf("strconv.ParseInt: %v", err)
			}
			return int(n)
		}
		if string(b[:6]) != "070701" {
			t.Fatalf("magic = %q, want 070701", b[:6])
		}
		mode, size, namesize := field(1), field(6), field(11)
		name := string(b[110 : 110+namesize-1])
		start := (110 + namesize + 3) &^ 3
		data := string(b[start : start+size])
		b = b[(start+size+3)&^3:]
		if name == "TRAILER!!!" {
			return files
		}
		files[name] = strconv.FormatInt(int64(mode), 8) + " " + data
		if name != filepath.Clean(name) || strings.HasPrefix(name, "/") {
			t.Errorf("archive contains the name %q, want a clean relative name", name)
		}
	}
	t.Fatal("archive has no trailer")
	return nil
}

func TestWriter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("copied"), 0o750); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	var buf bytes.Buffer
	w := NewWriter(&buf)
	for _, err := range []error{
		w.Dir("/dev"),
		w.File("/a/b/c", 0o600, []byte("hello")),
		w.File("a/b/d", 0o755, nil),
		w.Symlink("sbin/modprobe", "/init"),
		w.CopyFile("x", file),
		w.Close(),
	} {
		if err != nil {
			t.Fatalf("Writer: %v", err)
		}
	}
	if buf.Len()%4 != 0 {
		t.Errorf("size of the archive = %d, want a multiple of 4", buf.Len())
	}
	want := map[string]string{
		"dev": "40755 ", "a": "40755 ", "a/b": "40755 ", "sbin": "40755 ",
		"a/b/c": "100600 hello", "a/b/d": "100755 ",
		"sbin/modprobe": "120777 /init", "x": "100750 copied",
	}
	got := parse(t, buf.Bytes())
	for name, v := range want {
		if got[name] != v {
			t.Errorf("archive entry %s = %q, want %q", name, got[name], v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("archive = %v, want %v", got, want)
	}
}

func TestCopyFileMissing(t *testing.T) {
	if NewWriter(&bytes.Buffer{}).CopyFile("x", "/nonexistent") == nil {
		t.Error("CopyFile of a missing file = nil")
	}
}
