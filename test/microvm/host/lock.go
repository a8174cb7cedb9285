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

// lock waits for this machine's turn. The lock ends with the process at the
// latest.
func lock(ctx context.Context, progress io.Writer) (unlock func(), err error) {
	f, err := openLock()
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	start := time.Now()
	said := false
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", lockPath, err)
		}
		if !said && time.Since(start) > time.Second {
			said = true
			fmt.Fprintln(progress, "rdmavm: waiting for another rdmavm on this machine to finish")
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		case <-time.After(between(time.Since(start))):
		}
	}
}

// between is how long to wait between two tries. Who has waited long tries more
// often, and so comes first.
func between(waited time.Duration) time.Duration {
	return max(2*time.Millisecond, 50*time.Millisecond/(1+waited.Truncate(10*time.Second)/(10*time.Second)))
}

// openLock opens the file that is there rather than creating it: in a sticky
// directory the kernel may refuse O_CREAT on a file of somebody else.
func openLock() (*os.File, error) {
	for {
		f, err := os.OpenFile(lockPath, os.O_RDONLY, 0)
		if !os.IsNotExist(err) {
			return f, err
		}
		f, err = os.OpenFile(lockPath, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if !os.IsExist(err) {
			return f, err
		}
	}
}
