// SPDX-License-Identifier: Apache-2.0

package rdmanl

import "purerdma/abi"

// Chardev is a character device (RDMA_NLDEV_CMD_GET_CHARDEV).
type Chardev struct {
	Attributes
	Name       string // below /dev/infiniband
	Number     uint64 // dev_t of the kernel (makedev(3))
	ABIVersion uint32 // of the driver for uverbs, of the interface for the others
	DriverID   abi.DriverID
}

// Uverbs returns the character device of a device's verbs. The kernel loads ib_uverbs if it can, and
// returns an error if the device has none.
func (c *Conn) Uverbs(device uint32) (Chardev, error) {
	return c.chardev(newRequest("get the verbs node of", abi.RDMA_NLDEV_CMD_GET_CHARDEV).device(device), "uverbs")
}

// UMAD returns the character device for management datagrams of a port. The kernel loads ib_umad if it
// can. A port of iWARP has no management datagrams, and none of these devices.
func (c *Conn) UMAD(device, port uint32) (Chardev, error) {
	return c.chardev(newRequest("get the management node of", abi.RDMA_NLDEV_CMD_GET_CHARDEV).device(device).port(port), "umad")
}

// RDMACM returns the character device of the connection manager. The kernel loads rdma_ucm if it can.
func (c *Conn) RDMACM() (Chardev, error) {
	return c.chardev(newRequest("get the node of the connection manager", abi.RDMA_NLDEV_CMD_GET_CHARDEV), "rdma_cm")
}

func (c *Conn) chardev(r *request, client string) (Chardev, error) {
	m, err := c.get(r.addText(abi.RDMA_NLDEV_ATTR_CHARDEV_TYPE, client))
	if err != nil {
		return Chardev{}, err
	}
	d, ok := parseChardev(m)
	if !ok {
		return Chardev{}, r.wrap(errNoAnswer)
	}
	return d, nil
}

func parseChardev(m value) (c Chardev, ok bool) {
	for attr, v := range m.attributes() {
		c.add(attr)
		switch attr {
		case abi.RDMA_NLDEV_ATTR_CHARDEV_NAME:
			c.Name = v.text()
		case abi.RDMA_NLDEV_ATTR_CHARDEV:
			c.Number = v.number()
		case abi.RDMA_NLDEV_ATTR_CHARDEV_ABI:
			c.ABIVersion = v.u32()
		case abi.RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID:
			c.DriverID = abi.DriverID(v.number())
		}
	}
	return c, c.Name != ""
}
