// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLock checks that waiters get the lock in the order of arrival, except waiters that have
// given up. It also checks the message for a waiter.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	unlock, err := lock(ctx, path, io.Discard)
	if err != nil {
		t.Fatalf("lock: %v", err)
	}
	said := ""
	impatient, giveUp := context.WithCancelCause(ctx)
	told := writer(func(b []byte) {
		said += string(b)
		giveUp(errors.New("no more time"))
	})
	if _, err := lock(impatient, path, told); err == nil || err.Error() != "no more time" {
		t.Errorf("lock of an impatient waiter = %v, want its cause", err)
	}
	if !strings.Contains(said, "waiting for another rdmavm") {
		t.Errorf("a waiter gets the message %q, want the reason for waiting", said)
	}
	order := make(chan int, 5)
	for i := range cap(order) {
		go func() {
			unlock, err := lock(ctx, path, io.Discard)
			if err != nil {
				t.Errorf("lock %d: %v", i, err)
			} else {
				defer unlock()
			}
			order <- i
		}()
		awaitWaiters(i + 2) // the impatient waiter still has its place
	}
	select {
	case i := <-order:
		t.Fatalf("waiter %d got the lock before its release", i)
	default:
	}
	unlock()
	for want := range cap(order) {
		if got := <-order; got != want {
			t.Errorf("waiter %d got the lock, want %d", got, want)
		}
	}
}

// TestLockPath checks that the lock is in a directory that other users cannot write to.
func TestLockPath(t *testing.T) {
	uid := os.Getuid()
	home, open, mine := t.TempDir(), t.TempDir(), t.TempDir()
	if err := errors.Join(os.Chmod(open, 0o777), os.Chmod(mine, 0o700)); err != nil {
		t.Fatalf("os.Chmod: %v", err)
	}
	cached := filepath.Join(home, ".cache/rdmavm", lockName)
	if st, err := os.Stat(filepath.Join("/run/user", strconv.Itoa(uid))); err == nil && owner(st) == uid {
		cached = filepath.Join("/run/user", strconv.Itoa(uid), lockName)
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	for dir, want := range map[string]string{
		mine: filepath.Join(mine, lockName), open: cached, "": cached, "relative": cached, filepath.Join(mine, "missing"): cached,
	} {
		t.Setenv("XDG_RUNTIME_DIR", dir)
		if got, err := lockPath(uid, "/nonexistent"); got != want || err != nil {
			t.Errorf("lockPath with XDG_RUNTIME_DIR=%s = %s, %v, want %s", dir, got, err, want)
		}
	}
	// Another user owns neither directory.
	t.Setenv("XDG_RUNTIME_DIR", mine)
	if got, err := lockPath(1<<30, "/nonexistent"); err == nil || !strings.Contains(err.Error(), "belongs to user") {
		t.Errorf("lockPath of another user = %s, %v, want an error about the owner", got, err)
	}
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("XDG_CACHE_HOME", open)
	if err := errors.Join(os.Mkdir(filepath.Join(open, "rdmavm"), 0o755), os.Chmod(filepath.Join(open, "rdmavm"), 0o777)); err != nil {
		t.Fatalf("os.Mkdir, os.Chmod: %v", err)
	}
	if got, err := lockPath(uid, "/nonexistent"); !strings.HasPrefix(cached, "/run") && (err == nil || !strings.Contains(err.Error(), "all users can write")) {
		t.Errorf("lockPath in a directory for all = %s, %v, want an error", got, err)
	}
}

// TestOpenLock checks that openLock rejects other files than regular files of the user, and
// does not block on them.
func TestOpenLock(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(unix.Mkfifo(path("FIFO"), 0o666), os.Symlink("target", path("link")), os.Mkdir(path("directory"), 0o755),
		os.WriteFile(path("file"), nil, 0o644), os.Symlink(path("file"), path("link to a file")))
	if err != nil {
		t.Fatalf("create the files: %v", err)
	}
	for _, name := range []string{"FIFO", "link", "directory", "link to a file"} {
		if f, err := openLock(path(name), os.Getuid()); err == nil {
			f.Close()
			t.Errorf("openLock accepts a %s", name)
		}
	}
	if _, err := os.Lstat(path("target")); err == nil {
		t.Error("openLock created the target of a link")
	}
	if f, err := openLock(path("file"), os.Getuid()+1); err == nil {
		f.Close()
		t.Error("openLock accepts a file of another user")
	}
	for _, name := range []string{"file", "new"} {
		f, err := openLock(path(name), os.Getuid())
		if err != nil {
			t.Fatalf("openLock: %v", err)
		}
		f.Close()
	}
	if st, err := os.Stat(path("new")); err != nil || st.Mode().Perm()&0o077 != 0 {
		t.Errorf("the new lock has mode %v, %v, want access for the user only", st.Mode(), err)
	}
}

// writer implements io.Writer.
type writer func(b []byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

// awaitWaiters waits until n calls of flock in this process wait. Some kernels do not list
// waiters behind other waiters. On these it waits for half a second.
func awaitWaiters(n int) {
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		locks, _ := os.ReadFile("/proc/locks")
		waiting := 0
		for line := range strings.Lines(string(locks)) {
			f := strings.Fields(line) // "1: -> FLOCK ADVISORY WRITE pid"
			if len(f) > 5 && f[1] == "->" && f[2] == "FLOCK" && f[5] == strconv.Itoa(os.Getpid()) {
				waiting++
			}
		}
		if waiting >= n {
			return
		}
	}
}

// TestTempDir checks that a run removes the directories of ended runs, and not the directories that
// other runs use.
func TestTempDir(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	used, remove, err := tempDir()
	if err != nil {
		t.Fatalf("tempDir: %v", err)
	}
	defer remove()
	killed := filepath.Join(os.TempDir(), filepath.Base(used)+"0")
	if err := os.Mkdir(killed, 0o700); err != nil {
		t.Fatalf("os.Mkdir: %v", err)
	}
	second, removeSecond, err := tempDir()
	if err != nil {
		t.Fatalf("tempDir during another run: %v", err)
	}
	if _, err := os.Stat(used); err != nil {
		t.Errorf("os.Stat of the directory of another run: %v", err)
	}
	if _, err := os.Stat(killed); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("os.Stat of the directory of a killed run: %v, want that it does not exist", err)
	}
	removeSecond()
	if _, err := os.Stat(second); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("os.Stat of the directory of an ended run: %v, want that it does not exist", err)
	}
}
