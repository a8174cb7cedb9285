// SPDX-License-Identifier: Apache-2.0

package rdmanl

import "purerdma/abi"

// MR is a memory region (RDMA_NLDEV_CMD_RES_MR_GET).
type MR struct {
	Attributes
	Number     uint32
	RKey, LKey uint32 // only for a reader with CAP_NET_ADMIN in the initial user namespace
	IOVA       uint64 // older kernels do not report it
	Length     uint64 // bytes
	PD         uint32 // PD.Number, for memory of a process
	Owner
	Driver []DriverValue
}

// MRs lists the memory regions of a device.
func (c *Conn) MRs(device uint32) ([]MR, error) {
	return objects(c, newRequest("list MRs of", abi.RDMA_NLDEV_CMD_RES_MR_GET).device(device),
		abi.RDMA_NLDEV_ATTR_RES_MR, abi.RDMA_NLDEV_ATTR_RES_MR_ENTRY, parseMR)
}

func parseMR(m value) (r MR, ok bool) {
	for attr, v := range m.attributes() {
		r.add(attr)
		r.Owner.parse(attr, v)
		switch attr {
		case abi.RDMA_NLDEV_ATTR_RES_MRN:
			r.Number, ok = v.u32(), true
		case abi.RDMA_NLDEV_ATTR_RES_RKEY:
			r.RKey = v.u32()
		case abi.RDMA_NLDEV_ATTR_RES_LKEY:
			r.LKey = v.u32()
		case abi.RDMA_NLDEV_ATTR_RES_IOVA:
			r.IOVA = v.number()
		case abi.RDMA_NLDEV_ATTR_RES_MRLEN:
			r.Length = v.number()
		case abi.RDMA_NLDEV_ATTR_RES_PDN:
			r.PD = v.u32()
		case abi.RDMA_NLDEV_ATTR_DRIVER:
			r.Driver = parseDriver(v)
		}
	}
	return r, ok
}
