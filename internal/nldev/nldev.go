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
	NodeType uint8 // enum rdma_node_type
}

// Chardev is the uverbs character device of an RDMA device.
type Chardev struct {
	Name       string // below /dev/infiniband
	ABIVersion uint32 // of the driver
	DriverID   abi.DriverID
}
