// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"io"

	"golang.org/x/sys/unix"

	"purerdma/internal/cdev"
)

// readEvent reads one event. The kernel never returns a part of an event.
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
		case n == 0: // end of file, by which a fake kernel reports the removal of the device
			return false, unix.EIO
		case n != len(b):
			return false, io.ErrUnexpectedEOF
		}
		return false, nil
	}
}
