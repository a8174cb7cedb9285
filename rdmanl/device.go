// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"purerdma/abi"
	"purerdma/internal/enum"
)

// Device is one RDMA device (RDMA_NLDEV_CMD_GET).
type Device struct {
	Attributes
	Index        uint32 // stays until the device is removed. The kernel does not reuse it soon
	Name         string
	Ports        uint32 // number of the last port
	Caps         uint64 // IB_DEVICE_* of the kernel's ib_verbs.h
	Firmware     string // version, "" if the device has none
	NodeGUID     uint64 // the first byte on the wire is the highest
	SysImageGUID uint64 // likewise
	NodeType     NodeType
	Protocol     string // of the first port, as "ib", "roce" or "iw"
	// AdaptiveModeration delays the completion interrupts of new CQs of the kernel by their rate (DIM).
	AdaptiveModeration bool
	Type               DeviceType // Linux 6.12
	Parent             string     // of a device that AddDevice has made (Linux 6.12)
	NameAssigned       NameAssign // origin of the name (Linux 6.12)
}

// NodeType is the kind of an RDMA node. It is enum rdma_node_type of the kernel and enum
// ibv_node_type of ibv_get_device_list(3).
type NodeType uint8

// Kinds of nodes. RoCE devices are also channel adapters.
const (
	NodeUnknown     NodeType = 0
	NodeCA          NodeType = abi.RDMA_NODE_IB_CA
	NodeSwitch      NodeType = abi.RDMA_NODE_IB_SWITCH
	NodeRouter      NodeType = abi.RDMA_NODE_IB_ROUTER
	NodeRNIC        NodeType = abi.RDMA_NODE_RNIC // iWARP
	NodeUSNIC       NodeType = abi.RDMA_NODE_USNIC
	NodeUSNICUDP    NodeType = abi.RDMA_NODE_USNIC_UDP
	NodeUnspecified NodeType = abi.RDMA_NODE_UNSPECIFIED
)

// String returns the name of the kind, as "ca".
func (t NodeType) String() string {
	return enum.Name(t, "NodeType", []string{"unknown", "ca", "switch", "router", "rnic", "usnic", "usnic_udp", "unspecified"})
}

// DeviceType is enum rdma_nl_dev_type of the kernel. Devices of hardware have none.
type DeviceType uint8

// DeviceSMI is a device for subnet management packets of its parent.
const DeviceSMI DeviceType = abi.RDMA_DEVICE_TYPE_SMI

// String returns the name of the type.
func (t DeviceType) String() string { return enum.Name(t, "DeviceType", []string{DeviceSMI: "smi"}) }

// NameAssign is the origin of a device's name (enum rdma_nl_name_assign_type of the kernel).
type NameAssign uint8

// Origins of names.
const (
	NameByKernel NameAssign = abi.RDMA_NAME_ASSIGN_TYPE_UNKNOWN
	NameByUser   NameAssign = abi.RDMA_NAME_ASSIGN_TYPE_USER // udev must not change it
)

// String returns the name of the origin.
func (a NameAssign) String() string { return enum.Name(a, "NameAssign", []string{"kernel", "user"}) }

// Devices lists the devices.
func (c *Conn) Devices() ([]Device, error) {
	return list(c, newRequest("list devices", abi.RDMA_NLDEV_CMD_GET), func(m value) []Device {
		if d, ok := parseDevice(m); ok {
			return []Device{d}
		}
		return nil
	})
}

// Device returns the device with an index. If there is none, the kernel returns EINVAL.
func (c *Conn) Device(index uint32) (Device, error) {
	r := newRequest("get", abi.RDMA_NLDEV_CMD_GET).device(index)
	m, err := c.get(r)
	if err != nil {
		return Device{}, err
	}
	d, ok := parseDevice(m)
	if !ok {
		return Device{}, r.wrap(errNoAnswer)
	}
	return d, nil
}

func parseDevice(m value) (d Device, ok bool) {
	for attr, v := range m.attributes() {
		d.add(attr)
		switch attr {
		case abi.RDMA_NLDEV_ATTR_DEV_INDEX:
			d.Index = v.u32()
		case abi.RDMA_NLDEV_ATTR_DEV_NAME:
			d.Name = v.text()
		case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
			d.Ports = v.u32()
		case abi.RDMA_NLDEV_ATTR_CAP_FLAGS:
			d.Caps = v.number()
		case abi.RDMA_NLDEV_ATTR_FW_VERSION:
			d.Firmware = v.text()
		case abi.RDMA_NLDEV_ATTR_NODE_GUID:
			d.NodeGUID = v.number()
		case abi.RDMA_NLDEV_ATTR_SYS_IMAGE_GUID:
			d.SysImageGUID = v.number()
		case abi.RDMA_NLDEV_ATTR_DEV_NODE_TYPE:
			d.NodeType = NodeType(v.u8())
		case abi.RDMA_NLDEV_ATTR_DEV_PROTOCOL:
			d.Protocol = v.text()
		case abi.RDMA_NLDEV_ATTR_DEV_DIM:
			d.AdaptiveModeration = v.flag()
		case abi.RDMA_NLDEV_ATTR_DEV_TYPE:
			d.Type = DeviceType(v.u8())
		case abi.RDMA_NLDEV_ATTR_PARENT_NAME:
			d.Parent = v.text()
		case abi.RDMA_NLDEV_ATTR_NAME_ASSIGN_TYPE:
			d.NameAssigned = NameAssign(v.u8())
		}
	}
	return d, d.Name != ""
}

// SetName renames a device. An existing name returns EEXIST.
func (c *Conn) SetName(device uint32, name string) error {
	return c.set(newRequest("rename", abi.RDMA_NLDEV_CMD_SET).device(device).addText(abi.RDMA_NLDEV_ATTR_DEV_NAME, name))
}

// SetNetNS moves a device to the network namespace of an open file, such as /run/netns/blue. This
// requires CAP_NET_ADMIN also in that namespace. While devices are shared ([System.SharedNetNS]), and
// for devices whose driver does not support namespaces, the kernel returns EOPNOTSUPP. Programs that
// use the device lose it.
func (c *Conn) SetNetNS(device uint32, fd int) error {
	return c.set(newRequest("set the network namespace of", abi.RDMA_NLDEV_CMD_SET).device(device).addU32(abi.RDMA_NLDEV_NET_NS_FD, uint32(fd)))
}

// SetAdaptiveModeration sets Device.AdaptiveModeration for new CQs of the kernel. It has no effect on
// drivers that do not support it.
func (c *Conn) SetAdaptiveModeration(device uint32, on bool) error {
	return c.set(newRequest("set adaptive moderation of", abi.RDMA_NLDEV_CMD_SET).device(device).addBool(abi.RDMA_NLDEV_ATTR_DEV_DIM, on))
}

// AddDevice makes a device of a type below a parent device (RDMA_NLDEV_CMD_NEWDEV, Linux 6.12). The
// kernel returns EOPNOTSUPP if the driver has no devices of this type.
func (c *Conn) AddDevice(parent uint32, name string, t DeviceType) error {
	return c.set(newRequest("add a device to", abi.RDMA_NLDEV_CMD_NEWDEV).device(parent).
		addText(abi.RDMA_NLDEV_ATTR_DEV_NAME, name).addU8(abi.RDMA_NLDEV_ATTR_DEV_TYPE, uint8(t)))
}

// DeleteDevice removes a device that AddDevice has made (RDMA_NLDEV_CMD_DELDEV, Linux 6.12).
func (c *Conn) DeleteDevice(device uint32) error {
	return c.set(newRequest("delete", abi.RDMA_NLDEV_CMD_DELDEV).device(device))
}

// AddLink makes a software device on a network interface (RDMA_NLDEV_CMD_NEWLINK). The driver is
// "rxe" or "siw". The kernel loads its module if necessary, which takes time.
func (c *Conn) AddLink(name, driver, netInterface string) error {
	r := newRequest("add", abi.RDMA_NLDEV_CMD_NEWLINK).addText(abi.RDMA_NLDEV_ATTR_DEV_NAME, name).
		addText(abi.RDMA_NLDEV_ATTR_LINK_TYPE, driver).addText(abi.RDMA_NLDEV_ATTR_NDEV_NAME, netInterface)
	r.object = driver + " device " + name + " on " + netInterface
	return c.set(r)
}

// DeleteLink removes a software device (RDMA_NLDEV_CMD_DELLINK). Other devices return EINVAL. The call
// returns when the kernel has removed the device. Kernels before Linux 7.3 wait on rxe and siw until
// every process has released the device.
func (c *Conn) DeleteLink(device uint32) error {
	return c.set(newRequest("delete", abi.RDMA_NLDEV_CMD_DELLINK).device(device))
}
