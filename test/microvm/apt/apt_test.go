// SPDX-License-Identifier: Apache-2.0

//go:build linux

package apt

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSourcesFor(t *testing.T) {
	out := `http://mirror/deb/ bookworm main /usr/share/keyrings/k.gpg
http://mirror/deb/ bookworm main $(SIGNED_BY)
http://mirror/deb/ bookworm-updates main
http://other/ stable contrib
http://third/party nodistro main
http://mirror/security/ bookworm-security main
`
	got, err := sourcesFor("trixie", true, parseTargets(out))
	if err != nil {
		t.Fatalf("sourcesFor: %v", err)
	}
	want := `deb [signed-by=/usr/share/keyrings/k.gpg] http://mirror/deb/ trixie main
deb [signed-by=/usr/share/keyrings/k.gpg] http://mirror/deb/ trixie-updates main
SECURITY
deb [signed-by=/usr/share/keyrings/k.gpg] http://mirror/deb/ trixie-backports main
`
	var lines []string
	for line := range strings.Lines(got) {
		if strings.Contains(line, "trixie-security") && strings.Contains(line, " http://mirror/security/ ") {
			line = "SECURITY\n" // its key is from this machine
		}
		lines = append(lines, line)
	}
	if got := strings.Join(lines, ""); got != want {
		t.Errorf("sources =\n%s\nwant:\n%s", got, want)
	}
	if _, err := sourcesFor("trixie", false, parseTargets("http://x/ubuntu/ noble main\n")); err == nil {
		t.Error("sourcesFor without a Debian mirror = nil error")
	}
}

func TestParseURIs(t *testing.T) {
	ps, err := parseURIs(`Reading package lists...
The following NEW packages will be installed:
'http://m/pool/q_1%3a7.deb' q_1%3a7_amd64.deb 9281168 SHA256:aa
'http://m/pool/l.deb' l_2_all.deb 12 SHA256:bb
`)
	if err != nil || len(ps) != 2 || ps[0] != (Package{"http://m/pool/q_1%3a7.deb", "q_1%3a7_amd64.deb", 9281168, "SHA256:aa"}) || ps[1] != (Package{"http://m/pool/l.deb", "l_2_all.deb", 12, "SHA256:bb"}) {
		t.Errorf("parseURIs = %v, %v, want two packages", ps, err)
	}
	for _, bad := range []string{"'x' y", "'x' y 1", "'x' y z SHA256:aa"} {
		if _, err := parseURIs(bad); err == nil {
			t.Errorf("parseURIs(%q) = nil error", bad)
		}
	}
}

func TestParseDepends(t *testing.T) {
	got := parseDepends(`linux-headers-6.12.1-amd64
  Depends: linux-headers-6.12.1-common
 |Depends: linux-image-6.12.1-amd64
  Depends: linux-image-6.12.1-amd64-unsigned
  PreDepends: <virtual>
    real
  Depends: gcc-14
`)
	if want := []string{"linux-headers-6.12.1-common", "linux-image-6.12.1-amd64", "linux-image-6.12.1-amd64-unsigned", "gcc-14"}; !slices.Equal(got, want) {
		t.Errorf("parseDepends = %q, want %q", got, want)
	}
}

func TestMergeUsr(t *testing.T) {
	for in, want := range map[string]string{
		"./":                  ".",
		"./lib/x86/libc.so.6": "usr/lib/x86/libc.so.6",
		"./lib":               "usr/lib",
		"./lib64/ld.so":       "usr/lib64/ld.so",
		"./usr/lib/a":         "usr/lib/a",
		"./libexec/a":         "libexec/a",
		"/bin/sh":             "usr/bin/sh",
		"../../etc/passwd":    "etc/passwd",
		"./sbin/../../x":      "x",
	} {
		if got := mergeUsr(in); got != want {
			t.Errorf("mergeUsr(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestUntar(t *testing.T) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range []*tar.Header{
		{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./lib/a", Typeflag: tar.TypeReg, Mode: 0o755, Size: 2},
		{Name: "./lib/b", Typeflag: tar.TypeLink, Linkname: "./lib/a"},
		{Name: "./usr/bin/c", Typeflag: tar.TypeSymlink, Linkname: "../lib/a"},
		{Name: "./usr/share/doc/d", Typeflag: tar.TypeReg, Mode: 0o000, Size: 2},
		{Name: "./etc/e", Typeflag: tar.TypeReg, Mode: 0o000, Size: 2},
	} {
		if err := w.WriteHeader(h); err != nil {
			t.Fatalf("w.WriteHeader: %v", err)
		}
		if h.Size > 0 {
			w.Write([]byte("hi"))
		}
	}
	w.Close()
	root := t.TempDir()
	keep := func(name string) bool { return !strings.HasPrefix(name, "usr/share/doc/") }
	u := unpacker{clean: mergeUsr, keep: keep, room: maxUnpacked}
	if err := u.into(root, &buf); err != nil {
		t.Fatalf("u.into: %v", err)
	}
	for _, name := range []string{"usr/lib/a", "usr/lib/b", "usr/bin/c", "etc/e"} {
		if b, err := os.ReadFile(filepath.Join(root, name)); string(b) != "hi" {
			t.Errorf("content of %s = %q, %v, want hi", name, b, err)
		}
	}
	for _, name := range []string{"lib", "usr/share"} {
		if _, err := os.Lstat(filepath.Join(root, name)); err == nil {
			t.Errorf("%s exists, want no file", name)
		}
	}
}

func TestHostRelease(t *testing.T) {
	for in, want := range map[string]string{
		"ID=debian\nVERSION_CODENAME=bookworm\n": "bookworm",
		"ID=\"debian\"\n":                        "sid",
		"ID=ubuntu\nVERSION_CODENAME=noble\n":    "",
	} {
		if got := hostRelease(in); got != want {
			t.Errorf("hostRelease(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestFresh(t *testing.T) {
	stamp := filepath.Join(t.TempDir(), "updated")
	if fresh(stamp, "s", false) {
		t.Error("fresh without a stamp = true")
	}
	os.WriteFile(stamp, []byte("s"), 0o644)
	if !fresh(stamp, "s", true) || fresh(stamp, "other", false) {
		t.Error("fresh of new lists = false, or of other sources = true")
	}
	hour := time.Now().Add(-time.Hour)
	os.Chtimes(stamp, hour, hour)
	if !fresh(stamp, "s", false) || fresh(stamp, "s", true) {
		t.Error("fresh of lists of an hour ago: want false for a refresh, else true")
	}
}
