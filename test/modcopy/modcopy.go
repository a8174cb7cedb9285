// SPDX-License-Identifier: Apache-2.0

// Package modcopy copies the module for tests that change it or build it elsewhere.
package modcopy

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Files copies the files in root that git does not ignore to dir, with their modes.
func Files(tb testing.TB, root, dir string) {
	tb.Helper()
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		tb.Fatalf("git ls-files in %s: %v", root, err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		err := file(filepath.Join(root, name), filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the index may list a removed file
			tb.Fatalf("copy %s: %v", name, err)
		}
	}
}

func file(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, info.Mode().Perm())
}
