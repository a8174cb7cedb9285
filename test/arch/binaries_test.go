// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"purerdma/internal/longtest"
)

// maxBinary is the maximum size of a stripped command, in bytes. Commands with net/http, which takes 3
// MiB, may have maxHTTP bytes: rdmavm downloads packages, and rdmahw uses net/rpc.
const (
	maxBinary = 6 << 20
	maxHTTP   = 10 << 20
)

// TestBinaries builds every command as it is released, as one file that only needs the kernel.
func TestBinaries(t *testing.T) {
	longtest.Need(t) // it builds every command three times
	root := moduleRoot(t)
	commands, err := filepath.Glob(filepath.Join(root, "cmd", "*", "main.go"))
	if err != nil || len(commands) == 0 {
		t.Fatalf("no commands: %v", err)
	}
	for _, arch := range []string{"amd64", "arm64", "riscv64"} {
		dir := t.TempDir()
		goRun(t, root, []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOFLAGS="},
			"build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/", "./cmd/...")
		for _, file := range commands {
			name := filepath.Base(filepath.Dir(file))
			t.Run(arch+"/"+name, func(t *testing.T) { checkStatic(t, filepath.Join(dir, name)) })
		}
	}
}

func checkStatic(t *testing.T, file string) {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatalf("elf.Open: %v", err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("%s is dynamically linked: it has a segment %v", file, p.Type)
		}
	}
	if libs, err := f.ImportedLibraries(); err != nil || len(libs) > 0 {
		t.Errorf("ImportedLibraries of %s = %v, %v, want none", file, libs, err)
	}
	st, err := os.Stat(file)
	if err != nil {
		t.Fatalf("os.Stat: %v", err)
	}
	most := int64(maxBinary)
	if name := filepath.Base(file); name == "rdmavm" || name == "rdmahw" {
		most = maxHTTP
	}
	if st.Size() > most {
		t.Errorf("size of %s = %d bytes, want at most %d", file, st.Size(), most)
	}
}

// goRun runs the go command, and returns its standard output.
func goRun(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	out, _ := goOutput(t, dir, env, args...)
	return out
}

// goOutput runs the go command, and returns its standard output and its standard error.
func goOutput(t *testing.T, dir string, env []string, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var messages strings.Builder
	cmd.Stderr = &messages
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, out, &messages)
	}
	return string(out), messages.String()
}
