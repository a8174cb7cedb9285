// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lockName is the name of the lock. All processes of a user on this machine use one directory,
// because concurrent virtual machines under software emulation cause each other's timeouts.
// Other users cannot write to that directory, because a process that holds the lock blocks the
// user.
const lockName = "rdmavm.lock"

// lockPath returns the path of the lock in the user's runtime directory, or else in the cache
// directory. It ignores TMPDIR, which may differ between processes. cacheDir is the cache
// directory of a user without a home.
func lockPath(uid int, cacheDir string) (string, error) {
	dirs := []string{os.Getenv("XDG_RUNTIME_DIR"), filepath.Join("/run/user", strconv.Itoa(uid))}
	for _, dir := range dirs {
		if filepath.IsAbs(dir) && private(dir, uid) == nil {
			return filepath.Join(dir, lockName), nil
		}
	}
	dir := cacheDir
	if base, err := os.UserCacheDir(); err == nil {
		dir = filepath.Join(base, "rdmavm")
	}
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = private(dir, uid)
	}
	if err != nil {
		return "", fmt.Errorf("directory of the lock: %w (set XDG_RUNTIME_DIR to your own directory)", err)
	}
	return filepath.Join(dir, lockName), nil
}

// private returns the reason why a directory cannot contain the lock, or nil.
func private(dir string, uid int) error {
	st, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !st.IsDir():
		return &os.PathError{Op: "stat", Path: dir, Err: unix.ENOTDIR}
	case owner(st) != uid:
		return fmt.Errorf("%s belongs to user %d", dir, owner(st))
	case st.Mode().Perm()&0o002 != 0:
		return fmt.Errorf("all users can write to %s", dir)
	}
	return nil
}

func owner(st os.FileInfo) int { return int(st.Sys().(*syscall.Stat_t).Uid) }

// lock waits for the user's turn on this machine, in the order of arrival. path identifies the
// lock. The lock ends with the process at the latest.
func lock(ctx context.Context, path string, progress io.Writer) (unlock func(), err error) {
	f, err := openLock(path, os.Getuid())
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	locked := make(chan error, 1)
	go func() {
		err := error(unix.EINTR)
		for err == unix.EINTR {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		}
		locked <- err
	}()
	waiting := time.NewTimer(time.Second)
	defer waiting.Stop()
	for {
		select {
		case err := <-locked:
			if err != nil {
				f.Close()
				return nil, fmt.Errorf("lock %s: %w", path, err)
			}
			return func() { f.Close() }, nil
		case <-waiting.C:
			fmt.Fprintln(progress, "rdmavm: waiting for another rdmavm on this machine to finish")
		case <-ctx.Done():
			go func() { // flock cannot be cancelled. Release the lock after it returns
				<-locked
				f.Close()
			}()
			return nil, context.Cause(ctx)
		}
	}
}

// openLock opens the lock, and creates it if necessary. It does not block on a FIFO and does
// not follow symbolic links. It accepts only a regular file of the user.
func openLock(path string, uid int) (*os.File, error) {
	const flags = os.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	f, err := os.OpenFile(path, flags|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && (!st.Mode().IsRegular() || owner(st) != uid) {
		err = fmt.Errorf("%s is not a regular file of user %d: remove it", path, uid)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
