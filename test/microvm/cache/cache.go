// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package cache keeps downloaded and built files.
//
// All files are below one directory. An entry is created under a temporary name and renamed
// when it is complete, so that an entry with its final name is complete. A file lock lets one
// process create entries at a time. Other processes wait and then find the entries.
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

// Open returns the cache in RDMAVM_CACHE or, by default, in the user's cache directory.
func Open(progress io.Writer) (*Cache, error) {
	dir := os.Getenv("RDMAVM_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find the cache directory: %w (set RDMAVM_CACHE)", err)
		}
		dir = filepath.Join(base, "rdmavm")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the cache directory: %w (set RDMAVM_CACHE to a writable directory)", err)
	}
	return &Cache{dir: dir, progress: progress}, nil
}

// Path returns a path below the cache's directory.
func (c *Cache) Path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

// lock prevents other processes from creating entries.
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
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
	return func() { f.Close() }, nil
}

// Get returns the directory of an entry by kind and name.
//
// A name identifies the newest version at the time of its look-up. It is a symbolic link to a
// directory with the version in its name. If there is none yet, or refresh is set, resolve
// returns the version and a function that fills a directory with it. Both run with the lock of the
// cache, and must not call Get. The directory gets its final path after it has been filled.
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
			return dir, nil // created while waiting for the lock
		}
	}
	version, fill, err := resolve()
	if err != nil {
		return "", err
	}
	// A colon, as in Debian's epochs, separates entries in lists of paths.
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

// fill creates dir completely or not at all. The caller holds the lock.
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

// File returns the path of a file. If it does not exist, write creates its contents.
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
