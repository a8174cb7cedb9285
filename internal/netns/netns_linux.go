// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Do runs fn on a thread that is in the network namespace ns. ns is the path of its file, such as
// /proc/42/ns/net, or its name in ip-netns(8). "" is the namespace of the caller's thread. fn must
// not start goroutines that depend on the namespace. Do requires CAP_SYS_ADMIN, in the namespace
// and in the caller's user namespace.
func Do(ns string, fn func() error) error {
	if ns == "" {
		return fn()
	}
	return do(path(ns), fn, setns)
}

func setns(f *os.File) error { return unix.Setns(int(f.Fd()), unix.CLONE_NEWNET) }

func do(path string, fn func() error, setns func(*os.File) error) error {
	target, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	defer target.Close()
	done := make(chan error, 1)
	go func() {
		// The runtime makes no new thread from a locked one, so no other thread gets the namespace.
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("network namespace of this thread: %w", err)
			return
		}
		defer home.Close()
		if err := setns(target); err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("entering network namespace %s: %w", path, err)
			return
		}
		err = fn()
		if setns(home) == nil {
			runtime.UnlockOSThread()
		}
		// Otherwise the thread ends with this goroutine, and with it the foreign namespace. The
		// effects of fn remain.
		done <- err
	}()
	return <-done
}
