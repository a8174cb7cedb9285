// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"errors"
	"slices"
	"strings"
	"syscall"

	"purerdma/cm"
)

// HintLoopback adds to a failed run that its addresses may be why: the one that was
// connected from, or to. What the library says of it by itself is not said twice.
func (u *UI) HintLoopback(err error, local, remote cm.Addr) {
	// What the kernel says of a loopback address when it resolves it, or the route.
	if !errors.Is(err, syscall.ENODEV) && !errors.Is(err, syscall.EINVAL) || !ofAddress(err) || strings.Contains(err.Error(), "loopback") {
		return
	}
	const why = "no RDMA device has a loopback address: take that of an interface that has one"
	switch {
	case remote.Addr().IsLoopback():
		u.Errorf("%s: %v: %s\n", u.Name, remote.Addr(), why)
	case remote.Addr().IsUnspecified():
		u.Errorf("%s: %v is taken for a loopback address, and %s\n", u.Name, remote.Addr(), why)
	case local.Addr().IsLoopback():
		u.Errorf("%s: %v: %s\n", u.Name, local.Addr(), why)
	}
}

// ofAddress says whether err is that of a call, or an event, that is about addresses.
func ofAddress(err error) bool {
	var unreachable *cm.UnreachableError
	var oe *cm.OpError
	return errors.As(err, &unreachable) || errors.As(err, &oe) && slices.Contains([]string{"bind", "resolve", "resolve the route"}, oe.Op)
}
