// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// notSupp is ENOTSUPP, which is internal to the kernel but sometimes returned.
const notSupp = syscall.Errno(524)

func errnoName(e syscall.Errno) string {
	if e == notSupp {
		return "ENOTSUPP"
	}
	return unix.ErrnoName(e)
}
