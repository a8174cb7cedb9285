// SPDX-License-Identifier: Apache-2.0

package rdmanl

import "purerdma/abi"

// Context is one opening of a device by a process (RDMA_NLDEV_CMD_RES_CTX_GET).
type Context struct {
	Attributes
	Number uint32
	Owner
	Driver []DriverValue
}

// Contexts lists the openings of a device (Linux 5.13).
func (c *Conn) Contexts(device uint32) ([]Context, error) {
	return objects(c, newRequest("list contexts of", abi.RDMA_NLDEV_CMD_RES_CTX_GET).device(device),
		abi.RDMA_NLDEV_ATTR_RES_CTX, abi.RDMA_NLDEV_ATTR_RES_CTX_ENTRY, parseContext)
}

func parseContext(m value) (x Context, ok bool) {
	for attr, v := range m.attributes() {
		x.add(attr)
		x.Owner.parse(attr, v)
		switch attr {
		case abi.RDMA_NLDEV_ATTR_RES_CTXN:
			x.Number, ok = v.u32(), true
		case abi.RDMA_NLDEV_ATTR_DRIVER:
			x.Driver = parseDriver(v)
		}
	}
	return x, ok
}
