// SPDX-License-Identifier: Apache-2.0

//go:build linux

package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"purerdma/test/microvm/apt"
	"purerdma/test/microvm/arch"
)

// A tree is a directory for building modules. It contains a kernel's headers, its build
// programs with their libraries, and source. The compiler and make are the machine's.
type tree struct {
	dir      string
	on       *arch.Arch // architecture of the modules
	progress io.Writer
}

// unpack fills the tree from the packages headers and source, and from the build programs of the
// machine's architecture. It makes the headers usable
// outside of /usr.
func (t *tree) unpack(ctx context.Context, a, machine *apt.Apt, headers, source string) error {
	deps, err := a.Depends(ctx, headers)
	if err != nil {
		return err
	}
	kbuild := slices.IndexFunc(deps, func(d string) bool { return strings.HasPrefix(d, "linux-kbuild-") })
	if kbuild < 0 {
		return fmt.Errorf("%s does not depend on linux-kbuild", headers)
	}
	packages := []string{headers, source}
	for _, d := range deps {
		if strings.HasPrefix(d, "linux-headers-") {
			packages = append(packages, d)
		}
	}
	if err := os.MkdirAll(filepath.Join(t.dir, "deb"), 0o755); err != nil {
		return err
	}
	debs, err := a.Fetch(ctx, filepath.Join(t.dir, "deb"), packages...)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.progress, "rdmavm: unpacking %s\n", strings.Join(packages, ", "))
	for _, d := range debs {
		if err := apt.Unpack(ctx, d, t.dir, nil); err != nil {
			return err
		}
	}
	// The build programs need all their dependencies, because they belong to the kernel's
	// Debian release, which may differ from the machine's.
	if err := machine.UnpackAll(ctx, t.dir, nil, deps[kbuild]); err != nil {
		return err
	}
	return errors.Join(t.wrapTools(), t.relocate(headers))
}

// extract extracts a directory of a source package's archive.
func (t *tree) extract(ctx context.Context, source, dir string) error {
	fmt.Fprintf(t.progress, "rdmavm: unpacking %s of %s\n", dir, source)
	below := path.Join(source, dir) + "/"
	archive := filepath.Join(t.dir, "usr/src", source+".tar.xz")
	err := apt.UnpackSource(ctx, archive, t.dir, func(name string) bool { return strings.HasPrefix(name, below) })
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(t.dir, below)); err != nil {
		return fmt.Errorf("%s does not contain %s: %w", archive, dir, err)
	}
	return nil
}

// build builds the one module in dir, a path relative to the tree's directory, and returns its
// file.
func (t *tree) build(ctx context.Context, headers, dir string, vars ...string) (string, error) {
	fmt.Fprintf(t.progress, "rdmavm: building %s\n", filepath.Base(dir))
	dir = filepath.Join(t.dir, dir)
	args := []string{
		"-C", filepath.Join(t.dir, "usr/src", headers), "M=" + dir, "modules",
		fmt.Sprintf("-j%d", runtime.NumCPU()),
		// Use another compiler version than the kernel's build, which Debian's setting would
		// require. Older versions do not have the option that the second variable disables.
		// Debugging information would be most of the module.
		"CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT=", "CONFIG_DEBUG_INFO=", "CONFIG_DEBUG_INFO_BTF_MODULES=",
	}
	if _, err := t.run(ctx, "make", slices.Concat(args, t.compiler(), vars)...); err != nil {
		return "", err
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.ko"))
	if len(files) != 1 {
		return "", fmt.Errorf("make built %d modules in %s, want one", len(files), dir)
	}
	return files[0], nil
}

// run runs a program in the tree, with an environment that does not change the behavior of a
// makefile.
func (t *tree) run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = t.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir(), "LC_ALL=C"}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // make passes it on
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w:\n%s", strings.Join(cmd.Args, " "), err, lastLines(out, 20))
	}
	return string(out), nil
}

// lastLines returns the last n lines of a program's output.
func lastLines(out []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
