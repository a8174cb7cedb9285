// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"purerdma/internal/longtest"
	"purerdma/test/modcopy"
)

func TestArchiveIsReproducible(t *testing.T) {
	when := time.Date(2026, 11, 24, 1, 2, 3, 0, time.UTC)
	var dirs [2]string
	for i := range dirs {
		dirs[i] = t.TempDir()
		from := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(from, []byte("program"), 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
		if err := os.Chtimes(from, when, when.Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatalf("os.Chtimes: %v", err)
		}
		if err := writeArchive(filepath.Join(dirs[i], "a.tar.gz"), "a", when, []file{{from, "program", 0o755}}); err != nil {
			t.Fatalf("writeArchive: %v", err)
		}
	}
	if err := compare(dirs[0], dirs[1]); err != nil {
		t.Errorf("compare of two archives = %v", err)
	}
	for name, change := range map[string]func(dir string) error{
		"another byte": func(dir string) error { return os.WriteFile(filepath.Join(dir, "a.tar.gz"), []byte("x"), 0o644) },
		"another file": func(dir string) error { return os.WriteFile(filepath.Join(dir, "b"), nil, 0o644) },
	} {
		if err := change(dirs[1]); err != nil {
			t.Fatalf("change: %v", err)
		}
		if compare(dirs[0], dirs[1]) == nil {
			t.Errorf("%s: compare = nil error", name)
		}
	}
}

func TestCheckVersion(t *testing.T) {
	info := func(settings ...string) *debug.BuildInfo {
		in := &debug.BuildInfo{}
		for _, s := range settings {
			key, value, _ := strings.Cut(s, "=")
			in.Settings = append(in.Settings, debug.BuildSetting{Key: key, Value: value})
		}
		return in
	}
	when, err := checkVersion(info("vcs.revision=c1", "vcs.modified=false", "vcs.time=2026-11-24T01:02:03Z"))
	if want := time.Date(2026, 11, 24, 1, 2, 3, 0, time.UTC); err != nil || !when.Equal(want) {
		t.Errorf("checkVersion of a commit = %v, %v, want %v", when, err, want)
	}
	if _, err := checkVersion(info("vcs.revision=c1", "vcs.modified=true", "vcs.time=2026-11-24T01:02:03Z")); err == nil {
		t.Error("checkVersion of a changed tree = nil error")
	}
	if _, err := checkVersion(info()); err == nil {
		t.Error("checkVersion without a commit = nil error")
	}
}

// TestRelease builds a release of a copy of the module, which is a clone with a tag. All programs are in one directory, because some checks of
// rdmahw run programs next to it.
func TestRelease(t *testing.T) {
	longtest.Need(t)
	root, dir := filepath.Join("..", ".."), t.TempDir()
	modcopy.Files(t, root, dir)
	for _, args := range [][]string{
		{"init", "--quiet"}, {"add", "--all"},
		{"-c", "user.name=Test", "-c", "user.email=test@example.org", "commit", "--quiet", "--message=test"},
		{"tag", "v0.9.8"},
	} {
		if err := command(t.Context(), dir, nil, "git", args...); err != nil {
			t.Fatalf("command: %v", err)
		}
	}
	sbom, out := filepath.Join(t.TempDir(), "cyclonedx-gomod"), filepath.Join(t.TempDir(), "release")
	if err := command(t.Context(), filepath.Join(root, "test", "tools"), nil, "go", "build", "-trimpath", "-buildvcs=false", "-o", sbom, "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod"); err != nil {
		t.Fatalf("command: %v", err)
	}
	if err := release(t.Context(), dir, out, sbom); err != nil {
		t.Fatalf("release: %v", err)
	}
	if out, err := exec.Command("sh", "-c", `cd "$1" && sha256sum --check --strict SHA256SUMS`, "sh", out).CombinedOutput(); err != nil || strings.Count(string(out), ": OK\n") != 3 {
		t.Errorf("sha256sum --check = %v, want 3 correct files:\n%s", err, out)
	}
	list, err := exec.Command("go", "list", "-m").Output()
	if err != nil {
		t.Fatalf("go list -m: %v", err)
	}
	module := strings.TrimSpace(string(list))
	base := path.Base(module) + "_v0.9.8"
	checkSBOM(t, filepath.Join(out, base+".cdx.json"), module)
	programs, err := filepath.Glob(filepath.Join(root, "cmd", "*", "main.go"))
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		name := base + "_linux_" + arch
		unpacked := unpack(t, filepath.Join(out, name+".tar.gz"))
		for _, p := range programs {
			f, err := elf.Open(filepath.Join(unpacked, name, filepath.Base(filepath.Dir(p))))
			if err != nil {
				t.Errorf("%s: %v", arch, err)
				continue
			}
			if f.Machine != machine {
				t.Errorf("machine of %s = %v, want %v", p, f.Machine, machine)
			}
			f.Close()
		}
		if arch != "amd64" {
			continue
		}
		got, err := exec.Command(filepath.Join(unpacked, name, "rping"), "-version").CombinedOutput()
		if !strings.HasPrefix(string(got), "rping v0.9.8 go") {
			t.Errorf("rping -version = %q, %v, want rping v0.9.8", got, err)
		}
	}
}

// checkSBOM checks that the SBOM lists the module, the required modules and the standard library.
func checkSBOM(t *testing.T, name, module string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	type component struct{ Name, Version string }
	var bom struct {
		BOMFormat  string
		Metadata   struct{ Component component }
		Components []component
	}
	if err := json.Unmarshal(b, &bom); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if got, want := bom.Metadata.Component, (component{module, "v0.9.8"}); got != want || bom.BOMFormat != "CycloneDX" {
		t.Errorf("%s of %v, want CycloneDX of %v", bom.BOMFormat, got, want)
	}
	found := map[string]bool{}
	for _, c := range bom.Components {
		found[c.Name] = c.Version != ""
	}
	for _, want := range []string{"std", "golang.org/x/sys", "github.com/vishvananda/netlink", "github.com/vishvananda/netns"} {
		if !found[want] {
			t.Errorf("%s lists %v, want %s with a version", name, found, want)
		}
	}
}

// unpack unpacks an archive into a new directory.
func unpack(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatalf("os.Open: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("gzip.NewReader: %v", err)
	}
	dir := t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatalf("r.Next: %v", err)
		}
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		b, err := io.ReadAll(r)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil {
			err = os.WriteFile(to, b, h.FileInfo().Mode())
		}
		if err != nil {
			t.Fatalf("unpack %s: %v", h.Name, err)
		}
	}
}
