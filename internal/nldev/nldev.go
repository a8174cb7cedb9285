// SPDX-License-Identifier: Apache-2.0

// Package nldev queries the RDMA devices over NETLINK_RDMA, with the character device and the
// driver of each. It adds these requests to the sockets of package netlink of vishvananda, which
// lacks them.
package nldev

import "purerdma/abi"

// Device is one RDMA device.
type Device struct {
	Index    uint32 // does not change while the device exists. Not reused soon
	Name     string
	NodeGUID uint64
	NodeType uint8  // enum rdma_node_type
	Protocol string // "roce", "iw", "ib", ...; "" on old kernels
	Firmware string // version, "" if the device has none
}

// Port is one port of an RDMA device.
type Port struct {
	Number    uint32 // from 1
	State     uint8  // enum ib_port_state
	PhysState uint8  // enum ib_port_phys_state
	LID       uint32
	Ifindex   uint32 // of its network interface, 0 if it has none in this namespace
	Interface string
}

// System holds the settings of the kernel's RDMA subsystem.
type System struct {
	// SharedNetNS makes a device visible in all network namespaces, and not only in its own.
	SharedNetNS bool
	// CopyOnFork makes fork copy the memory that a device may reach for the child, so that the
	// parent's stays at its physical address (Linux 5.13).
	CopyOnFork bool
	// PrivilegedQKey allows any program to use controlled QKeys (Linux 6.7).
	PrivilegedQKey bool
}

// Chardev is the uverbs character device of an RDMA device.
type Chardev struct {
	Name       string // below /dev/infiniband
	ABIVersion uint32 // of the driver
	DriverID   abi.DriverID
}
