// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"purerdma/abi"
	"purerdma/rdmanl"
)

// DeviceInfo describes one RDMA device with a verbs character device in the kernel.
type DeviceInfo struct {
	Name       string // of the RDMA device, as "rxe0"
	Index      int    // of the RDMA device, from 0. -1 if the kernel does not report it.
	Node       string // path of the character device, as "/dev/infiniband/uverbs0"
	DriverID   abi.DriverID
	ABIVersion uint32 // of the driver's own ABI
	NodeGUID   uint64 // number whose first byte on the wire is the highest; 0 if unknown
	NodeType   NodeType
}

// NodeType is the kind of an RDMA node.
type NodeType = rdmanl.NodeType

// Kinds of nodes. RoCE devices are also channel adapters.
const (
	NodeUnknown = rdmanl.NodeUnknown
	NodeCA      = rdmanl.NodeCA
	NodeSwitch  = rdmanl.NodeSwitch
	NodeRouter  = rdmanl.NodeRouter
	NodeRNIC    = rdmanl.NodeRNIC // iWARP
)

// PortInfo describes one port of a device.
type PortInfo struct {
	Number    int   // from 1
	State     uint8 // enum ib_port_state: 4 is active
	PhysState uint8 // enum ib_port_phys_state: 5 is link up
	LID       uint16
	Ifindex   int // of its network interface, 0 if it has none in this namespace
	Interface string
}

// SystemInfo holds the settings of the kernel's RDMA subsystem for all devices.
type SystemInfo = rdmanl.System
