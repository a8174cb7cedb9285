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

// eceVersion requests all options of version 1 from CREATE_QP. The device returns the options that
// it grants.
const eceVersion = 1 << 28

// QueryECE returns the options that the device has granted (ibv_query_ece(3)). They are granted at
// the QP's creation, or by the first Modify after SetECE. Devices without ECE grant none, and the
// vendor is still set.
func (q *QP) QueryECE() (provider.ECE, error) {
	q.commands.Lock()
	defer q.commands.Unlock()
	if q.closed.Load() {
		return provider.ECE{}, net.ErrClosed
	}
	return provider.ECE{VendorID: eceVendor, Options: q.ece}, nil
}

// SetECE sets the options that the next Modify passes to the device (ibv_set_ece(3)), usually the
// peer's. With Options of 0, Modify passes none, and QueryECE returns none.
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

// granted records the options that the device has granted in response to a MODIFY_QP with options.
// The caller holds q.commands.
func (q *QP) granted(resp *abi.Mlx5ModifyQPResp) {
	if q.nextECE != 0 {
		q.nextECE, q.ece = 0, resp.ECEOptions
	}
}
