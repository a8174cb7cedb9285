// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"purerdma/abi"
	"purerdma/provider"
)

// eceVendor names the vendor of the devices in enhanced connection establishment. It is the
// vendor's PCI ID, as in libmlx5, and not its IEEE OUI.
const eceVendor = 0x15b3

// eceVersion asks CREATE_QP for all options of version 1. The device answers with the options
// that it grants.
const eceVersion = 1 << 28

// QueryECE returns the options that the device has granted (ibv_query_ece(3)): those of the QP's
// creation, or of the first Modify after SetECE. Devices without ECE grant none, and
// the vendor is set all the same.
func (q *QP) QueryECE() (provider.ECE, error) {
	q.commands.Lock()
	defer q.commands.Unlock()
	if q.closed.Load() {
		return provider.ECE{}, net.ErrClosed
	}
	return provider.ECE{VendorID: eceVendor, Options: q.ece}, nil
}

// SetECE sets the options that the next Modify gives the device (ibv_set_ece(3)), as a rule
// those of the peer. With Options of 0 the device is given none, and QueryECE returns none.
func (q *QP) SetECE(e provider.ECE) error {
	q.commands.Lock()
	defer q.commands.Unlock()
	switch {
	case q.closed.Load():
		return net.ErrClosed
	case e.VendorID != eceVendor:
		return fmt.Errorf("mlx5: ECE options of vendor %#x, want %#x: %w", e.VendorID, eceVendor, syscall.EINVAL)
	case !q.ctx.caps.ece:
		return fmt.Errorf("mlx5: the device has no ECE: %w", errors.ErrUnsupported)
	}
	q.nextECE, q.ece = e.Options, 0
	return nil
}

// granted notes the options that the device has granted with a MODIFY_QP that gave it some. The
// caller holds q.commands.
func (q *QP) granted(resp *abi.Mlx5ModifyQPResp) {
	if q.nextECE != 0 {
		q.nextECE, q.ece = 0, resp.ECEOptions
	}
}
