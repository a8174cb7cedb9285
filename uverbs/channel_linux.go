// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"io"

	"golang.org/x/sys/unix"

	"purerdma/internal/cdev"
)

// readEvent reads one event, which the kernel gives whole or not at all.
func readEvent(fd uintptr, b []byte) (again bool, err error) {
	for {
		n, err := cdev.ReadRaw(fd, b)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return true, nil
		case err != nil:
			return false, err
		case n == 0: // nobody will write any more: a fake kernel's way to say that the device is gone
			return false, unix.EIO
		case n != len(b):
			return false, io.ErrUnexpectedEOF
		}
		return false, nil
	}
}
