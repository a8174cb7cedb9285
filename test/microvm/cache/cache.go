// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package cache keeps what was downloaded or built once.
//
// Everything lies below one directory. An entry is made under a temporary
// name and renamed when it is whole, so what has its final name is complete;
// a file lock lets one process make entries at a time while others wait and
// then find them.
package cache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A Cache is a directory of entries.
type Cache struct {
	dir      string
	progress io.Writer
}

// Open returns the cache in RDMAVM_CACHE or, without that, in the user's
// cache directory.
func Open(progress io.Writer) (*Cache, error) {
	dir := os.Getenv("RDMAVM_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("finding the cache directory: %w; set RDMAVM_CACHE", err)
		}
		dir = filepath.Join(base, "rdmavm")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the cache directory: %w; set RDMAVM_CACHE to one that can be written", err)
	}
	return &Cache{dir: dir, progress: progress}, nil
}

// Path returns a path below the cache's directory.
func (c *Cache) Path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

// lock keeps other processes from making entries.
func (c *Cache) lock() (unlock func(), err error) {
	f, err := os.OpenFile(c.Path("lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		fmt.Fprintf(c.progress, "rdmavm: waiting for another rdmavm that is filling the cache %s\n", c.dir)
		for err = unix.EINTR; err == unix.EINTR; {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
		}
	}
	return func() { f.Close() }, nil
}

// Get returns the directory of the entry name of a kind.
//
// A name stands for what was the newest when it was looked up: a symbolic
// link to a directory whose name has the version. If there is none yet, or
// refresh is set, resolve finds out the version and returns a function that
// fills a directory with it.
func (c *Cache) Get(kind, name string, refresh bool, resolve func() (version string, fill func(dst string) error, err error)) (string, error) {
	link := c.Path(kind, name)
	if !refresh {
		if dir, err := filepath.EvalSymlinks(link); err == nil {
			return dir, nil
		}
	}
	unlock, err := c.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	if !refresh {
		if dir, err := filepath.EvalSymlinks(link); err == nil {
			return dir, nil // made while we waited
		}
	}
	version, fill, err := resolve()
	if err != nil {
		return "", err
	}
	// A colon, as in Debian's epochs, ends an entry in lists of paths.
	version = strings.NewReplacer("/", "_", ":", "_").Replace(version)
	dir := c.Path(kind, "v", version)
	if _, err := os.Stat(dir); err != nil {
		if err := c.fill(dir, fill); err != nil {
			return "", err
		}
	}
	tmp := link + ".new"
	os.Remove(tmp)
	if err := os.Symlink(filepath.Join("v", version), tmp); err != nil {
		return "", err
	}
	return dir, os.Rename(tmp, link)
}

// fill makes dir whole or not at all. The caller has the lock.
func (c *Cache) fill(dir string, fill func(string) error) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	tmp := dir + ".partial"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return err
	}
	if err := fill(tmp); err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return os.Rename(tmp, dir)
}

// File returns the path of a file, which write fills if it is not there.
func (c *Cache) File(path string, write func(w io.Writer) error) (string, error) {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.partial")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return "", err
	}
	return path, os.Rename(f.Name(), path)
}
