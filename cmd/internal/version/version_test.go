// SPDX-License-Identifier: Apache-2.0

package version

import (
	"debug/buildinfo"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"purerdma/internal/longtest"
)

func TestRequested(t *testing.T) {
	for args, want := range map[string]bool{
		"-version": true, "--version": true, "": false, "-v": false, "-version -s": false, "-c -version": false, "version": false,
	} {
		if got := Requested(strings.Fields(args)); got != want {
			t.Errorf("Requested(%s) = %v, want %v", args, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	info := &debug.BuildInfo{Path: "example.org/rdma/cmd/rping", GoVersion: "go1.26.0", Main: debug.Module{Path: "example.org/rdma", Version: "v0.1.0"},
		Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "arm64"}, {Key: "vcs.revision", Value: "c1fb4028"}}}
	want := "rping v0.1.0 go1.26.0 linux/arm64 c1fb4028\n"
	if got := Line(info); got != want {
		t.Errorf("Line() = %q, want %q", got, want)
	}
	info.Settings = info.Settings[:2]
	want = "rping v0.1.0 go1.26.0 linux/arm64\n"
	if got := Line(info); got != want {
		t.Errorf("Line() without a revision = %q, want %q", got, want)
	}
}

func TestFlag(t *testing.T) {
	fs := flag.NewFlagSet("program", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Bool("json", false, "")
	Flag(fs)
	if err := fs.Parse([]string{"-json", "-version"}); err == nil || !strings.Contains(err.Error(), "-version must be the only argument") {
		t.Errorf("Parse(-json -version) = %v, want an error", err)
	}
}

// TestPrograms runs every program with -version. The short form runs one program of each kind of
// main function.
func TestPrograms(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	programs, err := filepath.Glob(filepath.Join(root, "cmd", "*", "main.go"))
	if err != nil || len(programs) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	packages := []string{"./cmd/ibv_rc_pingpong", "./cmd/rdmavm"}
	if longtest.Enabled() {
		packages = nil
		for _, file := range programs {
			packages = append(packages, "./cmd/"+filepath.Base(filepath.Dir(file)))
		}
	}
	dir := t.TempDir()
	build := exec.Command("go", append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", dir + "/"}, packages...)...)
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	for _, pkg := range packages {
		name := filepath.Base(pkg)
		t.Run(name, func(t *testing.T) {
			info, err := buildinfo.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatalf("buildinfo.ReadFile: %v", err)
			}
			want := Line(info)
			if !strings.HasPrefix(want, name+" ") {
				t.Fatalf("Line() = %q, want the prefix %q", want, name+" ")
			}
			out, err := exec.Command(filepath.Join(dir, name), "-version").Output()
			if string(out) != want || err != nil {
				t.Errorf("%s -version = %q, %v, want %q", name, out, err, want)
			}
		})
	}
}
