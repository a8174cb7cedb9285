// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package fakeuverbs

import "syscall"

func fd(n int) syscall.Handle { return syscall.Handle(n) }

func pipe() (r, w int, err error) { return 0, 0, syscall.EPROTONOSUPPORT }
