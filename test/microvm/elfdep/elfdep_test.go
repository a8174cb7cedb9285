// SPDX-License-Identifier: Apache-2.0

//go:build linux

package elfdep

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestStatic(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "static")
	src := bin + ".go"
	if err := os.WriteFile(src, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	cmd := exec.Command("go", "build", "-o", bin, src)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("go build: %v: %s", err, out)
	}
	if files, err := Files(bin); len(files) != 0 || err != nil {
		t.Errorf("Files of a static program = %v, %v, want none", files, err)
	}
}

func TestDynamic(t *testing.T) {
	files, err := Files("/bin/sh")
	if err != nil {
		t.Fatalf("Files: %v", err)
	}
	if len(files) == 0 {
		t.Skip("/bin/sh is static")
	}
	libc := false
	for _, f := range files {
		if _, err := os.Stat(f); err != nil {
			t.Errorf("os.Stat: %v", err)
		}
		libc = libc || strings.Contains(filepath.Base(f), "libc.") || strings.Contains(f, "musl")
	}
	if !libc {
		t.Errorf("Files of /bin/sh = %v, want a C library", files)
	}
}

func TestNotELF(t *testing.T) {
	if _, err := Files("/etc/passwd"); err == nil {
		t.Error("Files of a text file = nil error")
	}
}
