// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
)

// architectures lists the architectures of the archives.
var architectures = []string{"amd64", "arm64"}

// A build builds all files from one clone.
type build struct {
	dir   string // of the clone
	out   string // of the files
	cache string // of the go command, or "" for its own
	sbom  string // file of cyclonedx-gomod
}

// all builds the files of all architectures.
func (b *build) all(ctx context.Context) error {
	var err error
	for _, dir := range []*string{&b.out, &b.sbom} { // commands run in b.dir
		if *dir, err = filepath.Abs(*dir); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return err
	}
	base := ""
	for _, arch := range architectures {
		if base, err = b.arch(ctx, arch); err != nil {
			return fmt.Errorf("linux/%s: %w", arch, err)
		}
	}
	return command(ctx, b.dir, b.env("amd64"), b.sbom, "mod", "-json", "-noserial", "-notimestamp", "-short-purls", "-std",
		"-output", filepath.Join(b.out, base+".cdx.json"), ".")
}

// env returns the environment of the builds for an architecture. It leaves no setting of the
// go command that changes the programs to the machine.
func (b *build) env(arch string) []string {
	env := []string{"GOOS=linux", "GOARCH=" + arch, "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off"}
	if b.cache != "" {
		env = append(env, "GOCACHE="+b.cache)
	}
	return env
}

// arch builds the archive of an architecture. It returns the beginning of the names of all
// files, which is the name of the module and the version.
func (b *build) arch(ctx context.Context, arch string) (base string, err error) {
	programs, err := os.MkdirTemp("", "release")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(programs)
	err = command(ctx, b.dir, b.env(arch), "go", "build", "-trimpath", "-buildvcs=true", "-ldflags", "-s -w", "-o", programs+"/", "./cmd/...")
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(programs)
	if err != nil {
		return "", err
	}
	var files []file
	var info *debug.BuildInfo
	for _, e := range entries {
		name := filepath.Join(programs, e.Name())
		if err := checkStatic(name); err != nil {
			return "", err
		}
		if info, err = buildinfo.ReadFile(name); err != nil {
			return "", err
		}
		files = append(files, file{name, e.Name(), 0o755})
	}
	if info == nil {
		return "", errors.New("no programs in cmd")
	}
	when, err := checkVersion(info)
	if err != nil {
		return "", err
	}
	for _, name := range []string{"LICENSE", "CHANGELOG.md"} {
		files = append(files, file{filepath.Join(b.dir, name), name, 0o644})
	}
	base = path.Base(info.Main.Path) + "_" + info.Main.Version
	return base, writeArchive(filepath.Join(b.out, base+"_linux_"+arch+".tar.gz"), base+"_linux_"+arch, when, files)
}

// checkVersion returns an error unless the build information has the version of a commit
// without changes. It returns the time of the commit.
func checkVersion(info *debug.BuildInfo) (time.Time, error) {
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	switch {
	case set["vcs.revision"] == "":
		return time.Time{}, errors.New("the programs have no version: build them in a clone of the repository, not in a git worktree")
	case set["vcs.modified"] != "false":
		return time.Time{}, fmt.Errorf("version %s has changes that are not committed", info.Main.Version)
	}
	return time.Parse(time.RFC3339, set["vcs.time"])
}

// checkStatic returns an error if a program needs other files than itself.
func checkStatic(name string) error {
	f, err := elf.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			return fmt.Errorf("%s is dynamically linked: it has a segment %v", name, p.Type)
		}
	}
	return nil
}

// command runs a command with additional environment.
func command(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}
