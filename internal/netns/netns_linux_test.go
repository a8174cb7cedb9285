// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purerdma/internal/vmtest"
)

func TestMain(m *testing.M) { vmtest.Main(m) }

func current(t *testing.T) string {
	t.Helper()
	s, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatalf("os.Readlink: %v", err)
	}
	return s
}

// foreign returns the path of another namespace, which exists until the end of the test.
func foreign(t *testing.T) string {
	t.Helper()
	tid, stop := make(chan int), make(chan struct{})
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			tid <- -1
			return
		}
		tid <- unix.Gettid()
		<-stop
	}()
	n := <-tid
	if n < 0 {
		t.Fatal("unshare(CLONE_NEWNET) failed")
	}
	t.Cleanup(func() { close(stop) })
	return fmt.Sprintf("/proc/self/task/%d/ns/net", n)
}

// TestDo checks that fn runs in the namespace, and that no other thread enters it then or later.
func TestDo(t *testing.T) {
	vmtest.Need(t)
	home, ns := current(t), foreign(t)
	want, err := os.Readlink(ns)
	if err != nil {
		t.Fatalf("os.Readlink(ns): %v", err)
	}
	for range 100 {
		var in string
		if err := Do(ns, func() error { in = current(t); return nil }); err != nil {
			t.Fatalf("Do: %v", err)
		}
		if in != want || in == home {
			t.Fatalf("namespace of fn = %s, want %s (the process has %s)", in, want, home)
		}
	}
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatalf("os.ReadDir: %v", err)
	}
	n := 0
	for _, e := range entries {
		if s, err := os.Readlink("/proc/self/task/" + e.Name() + "/ns/net"); err == nil && s == want {
			n++
		}
	}
	if n != 1 {
		t.Errorf("threads in the namespace = %d, want only its creator", n)
	}
}

func TestDoFails(t *testing.T) {
	for ns, want := range map[string]error{
		"no-such-namespace": fs.ErrNotExist,
		"/proc/self/status": syscall.EINVAL,
	} {
		ran := false
		err := Do(ns, func() error { ran = true; return nil })
		if !errors.Is(err, want) || !strings.Contains(err.Error(), "network namespace") || ran {
			t.Errorf("Do(%s) = %v, fn ran: %v, want %v without running fn", ns, err, ran, want)
		}
	}
	if err := Do("", func() error { return fs.ErrClosed }); err != fs.ErrClosed {
		t.Errorf("Do without a namespace = %v, want the error of fn", err)
	}
}

// TestFailedRestore checks that a thread ends if it cannot return to its namespace, and that Do returns the
// result of fn.
func TestFailedRestore(t *testing.T) {
	tid := os.Getpid()
	// The runtime never ends the main thread, but puts it to sleep for ever. So the test repeats until fn
	// has run on another thread.
	for tid == os.Getpid() {
		calls := 0
		err := do("/proc/self/ns/net", func() error { tid = unix.Gettid(); return fs.ErrClosed }, func(*os.File) error {
			if calls++; calls == 2 {
				return syscall.EPERM
			}
			return nil
		})
		if err != fs.ErrClosed || calls != 2 {
			t.Fatalf("do() = %v after %d calls, want %v after 2", err, calls, fs.ErrClosed)
		}
	}
	for end := time.Now().Add(10 * time.Second); slices.Contains(threads(t), fmt.Sprint(tid)); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("thread %d still exists after 10 s", tid)
		}
	}
}

func threads(t *testing.T) []string {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatalf("os.ReadDir: %v", err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
