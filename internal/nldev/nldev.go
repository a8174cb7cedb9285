// SPDX-License-Identifier: Apache-2.0

// Package nldev asks the kernel over NETLINK_RDMA which RDMA devices there are,
// and which character device and driver each has: what package netlink of
// vishvananda lacks, on top of its sockets.
package nldev

import "purerdma/abi"

// Device is one RDMA device.
type Device struct {
	Index    uint32 // does not change while the device lives; never reused soon
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

// System is how the kernel's RDMA subsystem is set.
type System struct {
	// SharedNetNS: a device is seen in all network namespaces, and not only in
	// the one that it belongs to.
	SharedNetNS bool
	// CopyOnFork: memory that a device may reach is copied for a child at fork,
	// so that the parent's stays where the device knows it (Linux 5.13).
	CopyOnFork bool
	// PrivilegedQKey: any program may use controlled QKeys (Linux 6.7).
	PrivilegedQKey bool
}

// Chardev is the uverbs character device of an RDMA device.
type Chardev struct {
	Name       string // below /dev/infiniband
	ABIVersion uint32 // of the driver
	DriverID   abi.DriverID
}
