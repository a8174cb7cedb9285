// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"fmt"
	"net"
	"syscall"

	"purerdma/abi"
	"purerdma/verbs"
)

// PortSpace is what a port number means, and with it the kind of QP behind an ID
// (enum rdma_port_space, rdma_cma.h).
type PortSpace uint16

// The port spaces. Each has port numbers of its own; none of them are those of
// the TCP/IP stack.
const (
	// PortSpaceTCP is the space of reliable connections (RDMA_PS_TCP).
	PortSpaceTCP PortSpace = abi.RDMA_PS_TCP
	// PortSpaceUDP is the space of datagrams, and of multicast (RDMA_PS_UDP).
	PortSpaceUDP PortSpace = abi.RDMA_PS_UDP
	// PortSpaceIPoIB is that of datagrams that share the multicast groups and the
	// queue key of IP over InfiniBand (RDMA_PS_IPOIB).
	PortSpaceIPoIB PortSpace = abi.RDMA_PS_IPOIB
	// PortSpaceIB is the space of InfiniBand service IDs, for any type of QP
	// (RDMA_PS_IB).
	PortSpaceIB PortSpace = abi.RDMA_PS_IB
)

// String returns the C name of the port space.
func (ps PortSpace) String() string {
	switch ps {
	case PortSpaceTCP:
		return "RDMA_PS_TCP"
	case PortSpaceUDP:
		return "RDMA_PS_UDP"
	case PortSpaceIPoIB:
		return "RDMA_PS_IPOIB"
	case PortSpaceIB:
		return "RDMA_PS_IB"
	}
	return fmt.Sprintf("port space %#x", uint16(ps))
}

// qpType returns the type of QP that the port space stands for. That of
// RDMA_PS_IB is the caller's to say; RC is what librdmacm takes.
func (ps PortSpace) qpType() verbs.QPType {
	if ps == PortSpaceUDP || ps == PortSpaceIPoIB {
		return verbs.UD
	}
	return verbs.RC
}

// check refuses a type of QP that the kernel would not take, but quietly replace:
// it has one of its own for every port space but PortSpaceIB.
func (ps PortSpace) check(t verbs.QPType) error {
	if ps != PortSpaceIB && (t == verbs.UD) != (ps.qpType() == verbs.UD) {
		return fmt.Errorf("%v has no QPs of type %v: %w", ps, t, syscall.EINVAL)
	}
	return nil
}

// portSpaceOf returns the port space that a name of package net stands for.
func portSpaceOf(network string) (PortSpace, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
		return PortSpaceTCP, nil
	case "udp", "udp4", "udp6":
		return PortSpaceUDP, nil
	}
	return 0, fmt.Errorf("%w: it is tcp, tcp4, tcp6, udp, udp4 or udp6", net.UnknownNetworkError(network))
}
