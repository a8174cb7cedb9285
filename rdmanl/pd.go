// SPDX-License-Identifier: Apache-2.0

package rdmanl

import "purerdma/abi"

// PD is a protection domain (RDMA_NLDEV_CMD_RES_PD_GET).
type PD struct {
	Attributes
	Number uint32
	Users  uint64 // QPs, memory regions and other objects in it
	// LocalDMALKey and UnsafeGlobalRKey are keys for all memory. The kernel reports them only to a
	// reader with CAP_NET_ADMIN in the initial user namespace.
	LocalDMALKey, UnsafeGlobalRKey uint32
	Context                        uint32 // Context.Number, for a PD of a process
	Owner
	Driver []DriverValue
}

// PDs lists the protection domains of a device.
func (c *Conn) PDs(device uint32) ([]PD, error) {
	return objects(c, newRequest("list PDs of", abi.RDMA_NLDEV_CMD_RES_PD_GET).device(device),
		abi.RDMA_NLDEV_ATTR_RES_PD, abi.RDMA_NLDEV_ATTR_RES_PD_ENTRY, parsePD)
}

func parsePD(m value) (p PD, ok bool) {
	for attr, v := range m.attributes() {
		p.add(attr)
		p.Owner.parse(attr, v)
		switch attr {
		case abi.RDMA_NLDEV_ATTR_RES_PDN:
			p.Number, ok = v.u32(), true
		case abi.RDMA_NLDEV_ATTR_RES_USECNT:
			p.Users = v.number()
		case abi.RDMA_NLDEV_ATTR_RES_LOCAL_DMA_LKEY:
			p.LocalDMALKey = v.u32()
		case abi.RDMA_NLDEV_ATTR_RES_UNSAFE_GLOBAL_RKEY:
			p.UnsafeGlobalRKey = v.u32()
		case abi.RDMA_NLDEV_ATTR_RES_CTXN:
			p.Context = v.u32()
		case abi.RDMA_NLDEV_ATTR_DRIVER:
			p.Driver = parseDriver(v)
		}
	}
	return p, ok
}
