// SPDX-License-Identifier: Apache-2.0

package uverbs

import "purerdma/abi"

// DeviceInfo is one RDMA device that the kernel has a verbs character device
// for.
type DeviceInfo struct {
	Name       string // of the RDMA device, as "rxe0"
	Index      int    // of the RDMA device, from 0; -1 if the kernel does not say
	Node       string // path of the character device, as "/dev/infiniband/uverbs0"
	DriverID   abi.DriverID
	ABIVersion uint32 // of the driver's own ABI
	NodeGUID   uint64 // number whose first byte on the wire is the highest; 0 if unknown
	NodeType   NodeType
}

// NodeType is the kind of an RDMA node: enum rdma_node_type of the kernel,
// enum ibv_node_type of ibv_get_device_list(3).
type NodeType uint8

// Kinds of nodes. RoCE devices, too, are channel adapters.
const (
	NodeUnknown NodeType = 0
	NodeCA      NodeType = 1
	NodeSwitch  NodeType = 2
	NodeRouter  NodeType = 3
	NodeRNIC    NodeType = 4 // iWARP
)

// PortInfo is one port of a device as the kernel lists it.
type PortInfo struct {
	Number    int   // from 1
	State     uint8 // enum ib_port_state: 4 is active
	PhysState uint8 // enum ib_port_phys_state: 5 is link up
	LID       uint16
	Ifindex   int // of its network interface, 0 if it has none in this namespace
	Interface string
}

// SystemInfo is how the kernel's RDMA subsystem is set, for all devices.
type SystemInfo struct {
	// SharedNetNS: a device is seen in all network namespaces, and not only in
	// the one that it belongs to (rdma system show).
	SharedNetNS bool
	// CopyOnFork: memory that a device may reach is copied for a child at fork,
	// so that the parent's stays where the device knows it (Linux 5.13).
	CopyOnFork bool
	// PrivilegedQKey: any program may use controlled QKeys (Linux 6.7).
	PrivilegedQKey bool
}
