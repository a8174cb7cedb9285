// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cache

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func open(t *testing.T) *Cache {
	t.Setenv("RDMAVM_CACHE", t.TempDir())
	c, err := Open(io.Discard)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return c
}

// filler returns a resolve function for a version whose entry has one file.
func filler(version string, fills *atomic.Int32) func() (string, func(string) error, error) {
	return func() (string, func(string) error, error) {
		return version, func(dst string) error {
			fills.Add(1)
			return os.WriteFile(filepath.Join(dst, "f"), []byte(version), 0o644)
		}, nil
	}
}

func TestGet(t *testing.T) {
	c := open(t)
	var fills atomic.Int32
	get := func(version string, refresh bool) string {
		t.Helper()
		dir, err := c.Get("kind", "name", refresh, filler(version, &fills))
		if err != nil {
			t.Fatalf("c.Get: %v", err)
		}
		b, err := os.ReadFile(filepath.Join(dir, "f"))
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		return string(b)
	}
	for i, step := range []struct {
		version string
		refresh bool
		want    string
		fills   int32
	}{
		{"1:2", false, "1:2", 1},
		{"2", false, "1:2", 1},
		{"2", true, "2", 2},
		{"1:2", true, "1:2", 2},
	} {
		if got := get(step.version, step.refresh); got != step.want || fills.Load() != step.fills {
			t.Errorf("step %d: Get = %s after %d fills, want %s after %d", i, got, fills.Load(), step.want, step.fills)
		}
	}
}

func TestGetFailure(t *testing.T) {
	c := open(t)
	bad := errors.New("bad")
	_, err := c.Get("kind", "name", false, func() (string, func(string) error, error) {
		return "1", func(dst string) error {
			os.WriteFile(filepath.Join(dst, "half"), nil, 0o644)
			return bad
		}, nil
	})
	if !errors.Is(err, bad) {
		t.Errorf("Get with a failing fill = %v, want its error", err)
	}
	var fills atomic.Int32
	dir, err := c.Get("kind", "name", false, filler("1", &fills))
	if err != nil || fills.Load() != 1 {
		t.Fatalf("Get after a failure = %v, %d fills, want 1", err, fills.Load())
	}
	if _, err := os.Stat(filepath.Join(dir, "half")); err == nil {
		t.Error("Get returned an incomplete entry")
	}
}

func TestGetConcurrent(t *testing.T) {
	c := open(t)
	var fills atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := c.Get("kind", "name", false, filler("1", &fills)); err != nil {
				t.Errorf("c.Get: %v", err)
			}
		})
	}
	wg.Wait()
	if fills.Load() != 1 {
		t.Errorf("the entry was created %d times, want 1", fills.Load())
	}
}

func TestFile(t *testing.T) {
	c := open(t)
	path := c.Path("a", "b")
	if _, err := c.File(path, func(io.Writer) error { return io.ErrShortWrite }); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("File with a failing write = %v, want its error", err)
	}
	for range 2 {
		p, err := c.File(path, func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err })
		b, rerr := os.ReadFile(p)
		if err != nil || rerr != nil || string(b) != "x" {
			t.Errorf("File = %q, %v, %v, want x", b, err, rerr)
		}
	}
	if left, _ := filepath.Glob(c.Path("a", "*")); len(left) != 1 {
		t.Errorf("files in the cache: %v, want 1", left)
	}
}
