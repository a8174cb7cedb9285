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
		t.Fatal(err)
	}
	return s
}

// foreign returns the path of another namespace, which stands until the test
// ends.
func foreign(t *testing.T) string {
	t.Helper()
	tid, stop := make(chan int), make(chan struct{})
	go func() {
		runtime.LockOSThread() // for good: the thread ends with it
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			tid <- -1
			return
		}
		tid <- unix.Gettid()
		<-stop
	}()
	n := <-tid
	if n < 0 {
		t.Fatal("no namespace can be made here")
	}
	t.Cleanup(func() { close(stop) })
	return fmt.Sprintf("/proc/self/task/%d/ns/net", n)
}

// TestDo: fn is in the namespace, and nothing else is, then or later.
func TestDo(t *testing.T) {
	vmtest.Need(t)
	home, ns := current(t), foreign(t)
	want, err := os.Readlink(ns)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		var in string
		if err := Do(ns, func() error { in = current(t); return nil }); err != nil {
			t.Fatal(err)
		}
		if in != want || in == home {
			t.Fatalf("fn was in %s, want %s; the process is in %s", in, want, home)
		}
	}
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if s, err := os.Readlink("/proc/self/task/" + e.Name() + "/ns/net"); err == nil && s == want {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d threads are in the namespace, want the one that made it", n)
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
			t.Errorf("%s: %v, ran: %v", ns, err, ran)
		}
	}
	if err := Do("", func() error { return fs.ErrClosed }); err != fs.ErrClosed {
		t.Errorf("no namespace: %v", err)
	}
}

// TestFailedRestore: a thread that cannot go home ends, and fn's outcome counts.
func TestFailedRestore(t *testing.T) {
	tid := os.Getpid()
	// If it is the main thread, the runtime puts it to sleep for ever: the next
	// one is another.
	for tid == os.Getpid() {
		calls := 0
		err := do("/proc/self/ns/net", func() error { tid = unix.Gettid(); return fs.ErrClosed }, func(*os.File) error {
			if calls++; calls == 2 {
				return syscall.EPERM
			}
			return nil
		})
		if err != fs.ErrClosed || calls != 2 {
			t.Fatalf("%v after %d calls", err, calls)
		}
	}
	for end := time.Now().Add(10 * time.Second); slices.Contains(threads(t), fmt.Sprint(tid)); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("thread %d lives on", tid)
		}
	}
}

func threads(t *testing.T) []string {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
