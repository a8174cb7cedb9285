// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// notSupp is ENOTSUPP, which the kernel keeps for itself but lets out here and
// there.
const notSupp = syscall.Errno(524)

func errnoName(e syscall.Errno) string {
	if e == notSupp {
		return "ENOTSUPP"
	}
	return unix.ErrnoName(e)
}
