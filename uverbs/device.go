// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

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

// NodeType is the kind of an RDMA node. It is enum rdma_node_type of the kernel and enum
// ibv_node_type of ibv_get_device_list(3).
type NodeType uint8

// Kinds of nodes. RoCE devices are also channel adapters.
const (
	NodeUnknown NodeType = 0
	NodeCA      NodeType = 1
	NodeSwitch  NodeType = 2
	NodeRouter  NodeType = 3
	NodeRNIC    NodeType = 4 // iWARP
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
type SystemInfo struct {
	// SharedNetNS makes a device visible in all network namespaces, and not only in its own (rdma
	// system show).
	SharedNetNS bool
	// CopyOnFork makes fork copy the memory that a device may reach for the child, so that the
	// parent's stays at its physical address (Linux 5.13).
	CopyOnFork bool
	// PrivilegedQKey allows any program to use controlled QKeys (Linux 6.7).
	PrivilegedQKey bool
}
