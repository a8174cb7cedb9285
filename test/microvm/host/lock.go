// SPDX-License-Identifier: Apache-2.0

//go:build linux

package host

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockPath is the same for all users of the machine: virtual machines under
// software emulation that run side by side only make each other miss their
// timeouts. It does not follow TMPDIR, which need not be the same for all.
const lockPath = "/tmp/rdmavm.lock"

// lock waits for this machine's turn, for which path stands: who has come first is
// first. The lock ends with the process at the latest.
func lock(ctx context.Context, path string, progress io.Writer) (unlock func(), err error) {
	f, err := openLock(path)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
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
				return nil, fmt.Errorf("locking %s: %w", path, err)
			}
			return func() { f.Close() }, nil
		case <-waiting.C:
			fmt.Fprintln(progress, "rdmavm: waiting for another rdmavm on this machine to finish")
		case <-ctx.Done():
			go func() { // nothing calls flock off: its turn comes, and passes on
				<-locked
				f.Close()
			}()
			return nil, context.Cause(ctx)
		}
	}
}

// openLock opens the file that is there rather than creating it: in a sticky
// directory the kernel may refuse O_CREAT on a file of somebody else.
func openLock(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDONLY, 0)
		if !os.IsNotExist(err) {
			return f, err
		}
		f, err = os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if !os.IsExist(err) {
			return f, err
		}
	}
}
