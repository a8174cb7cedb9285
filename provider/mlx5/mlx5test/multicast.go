// SPDX-License-Identifier: Apache-2.0

package mlx5test

import (
	"syscall"

	"purerdma/abi"
	"purerdma/internal/fakeuverbs"
)

// attach executes ATTACH_MCAST.
func (c *context) attach(cmd *fakeuverbs.Command) error {
	in := fakeuverbs.Input[abi.UverbsAttachMcast](cmd)
	q := c.qps[in.QPHandle]
	if q == nil || q.Type != abi.IB_UVERBS_QPT_UD || !isMulticast(in.GID) {
		return syscall.EINVAL
	}
	if h := c.hardware(); h != nil {
		if err := h.Attach(q, in.GID); err != nil {
			return err
		}
	}
	if q.groups == nil {
		q.groups = make(map[[16]byte]bool)
	}
	q.groups[in.GID] = true
	return nil
}

// detach executes DETACH_MCAST.
func (c *context) detach(cmd *fakeuverbs.Command) error {
	in := fakeuverbs.Input[abi.UverbsDetachMcast](cmd)
	q := c.qps[in.QPHandle]
	if q == nil || !q.groups[in.GID] {
		return syscall.EINVAL
	}
	if h := c.hardware(); h != nil {
		if err := h.Detach(q, in.GID); err != nil {
			return err
		}
	}
	delete(q.groups, in.GID)
	return nil
}

// isMulticast reports whether a GID is a multicast group: an IPv6 address, or a mapped IPv4
// address.
func isMulticast(gid [16]byte) bool {
	mapped := [12]byte{10: 0xff, 11: 0xff}
	return gid[0] == 0xff || [12]byte(gid[:12]) == mapped && gid[12]>>4 == 0xe
}
