// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"errors"
	"fmt"
	"syscall"
)

// errNoDeviceThere is librdmacm's error for an address that resolves without a
// device.
var errNoDeviceThere = fmt.Errorf("no RDMA device leads there: %w", syscall.ENODEV)

// errLoopback refuses to listen on a loopback address. The kernel would take it for
// the unspecified one (cma_any_addr), and let in who should stay out.
var errLoopback = fmt.Errorf("no RDMA device has a loopback address, and the kernel would listen on every device: "+
	"take the address of one, or no host for all of them: %w", syscall.EADDRNOTAVAIL)

const listIDs = `"rdma resource show cm_id" lists them`

// hint adds to the errno of a bind or a resolution what it usually comes from.
func hint(err error, local, remote Addr) error {
	var why string
	switch {
	// The kernel has EADDRNOTAVAIL, too, for a port that is in use, if one of the two
	// addresses is the unspecified one (cma_check_port).
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, syscall.EADDRNOTAVAIL) && local.IsValid() && local.Addr().IsUnspecified():
		why = "another ID has the port: " + listIDs
	case errors.Is(err, syscall.EADDRNOTAVAIL) && local.IsValid() && local.Port() != 0:
		why = "no interface has " + local.Addr().String() + ", or an ID has the port on all addresses: " + listIDs
	case errors.Is(err, syscall.EADDRNOTAVAIL) && local.IsValid():
		why = "no interface has " + local.Addr().String()
	case errors.Is(err, syscall.ENODEV) && (remote.Addr().IsLoopback() || local.Addr().IsLoopback()):
		why = "no RDMA device has a loopback address: take that of an interface that has one"
	case errors.Is(err, syscall.ENODEV) && local.IsValid():
		why = "the interface with " + local.Addr().String() + " has no RDMA device"
	default:
		return err
	}
	return fmt.Errorf("%w (%s)", err, why)
}
