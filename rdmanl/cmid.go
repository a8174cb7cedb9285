// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"net/netip"

	"purerdma/abi"
	"purerdma/internal/enum"
	"purerdma/internal/sockaddr"
)

// CMID is an ID of the connection manager that is bound to a device (RDMA_NLDEV_CMD_RES_CM_ID_GET).
type CMID struct {
	Attributes
	Number    uint32
	Port      uint32 // of the device, 0 if it is not known
	QP        uint32 // QP.Number, 0 without a QP
	QPType    QPType // of QP
	PortSpace PortSpace
	State     CMState
	// Local and Remote are the addresses. A zone is the number of the interface. They are invalid
	// if the ID has none, and for an InfiniBand address (AF_IB).
	Local, Remote netip.AddrPort
	Owner
	Driver []DriverValue
}

// PortSpace defines the meaning of an ID's port number (enum rdma_ucm_port_space of the kernel).
type PortSpace uint32

// Port spaces.
const (
	PortSpaceIPoIB PortSpace = abi.RDMA_PS_IPOIB
	PortSpaceIB    PortSpace = abi.RDMA_PS_IB
	PortSpaceTCP   PortSpace = abi.RDMA_PS_TCP
	PortSpaceUDP   PortSpace = abi.RDMA_PS_UDP
)

// String returns the name of the port space, as "TCP".
func (ps PortSpace) String() string { return enum.Name(ps, "PortSpace", portSpaces[:]) }

var portSpaces = [...]string{PortSpaceIPoIB: "IPoIB", PortSpaceIB: "IB", PortSpaceTCP: "TCP", PortSpaceUDP: "UDP"}

// CMState is the state of an ID in the kernel (enum rdma_cm_state).
type CMState uint8

// States of an ID. A connection has the state CMConnect from its request to its end.
const (
	CMIdle CMState = iota
	CMAddrQuery
	CMAddrResolved
	CMRouteQuery
	CMRouteResolved
	CMConnect
	CMDisconnect
	CMAddrBound
	CMListen
	CMDeviceRemoval
	CMDestroying
)

// String returns the name of the state, as "LISTEN".
func (s CMState) String() string {
	return enum.Name(s, "CMState", []string{"IDLE", "ADDR_QUERY", "ADDR_RESOLVED", "ROUTE_QUERY", "ROUTE_RESOLVED", "CONNECT",
		"DISCONNECT", "ADDR_BOUND", "LISTEN", "DEVICE_REMOVAL", "DESTROYING"})
}

// CMIDs lists the IDs of the connection manager that are bound to a device. An ID on a wildcard address
// is bound to none. The kernel makes an ID on each device for a listener on such an address.
func (c *Conn) CMIDs(device uint32) ([]CMID, error) {
	return objects(c, newRequest("list CM IDs of", abi.RDMA_NLDEV_CMD_RES_CM_ID_GET).device(device),
		abi.RDMA_NLDEV_ATTR_RES_CM_ID, abi.RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, parseCMID)
}

func parseCMID(m value) (id CMID, ok bool) {
	for attr, v := range m.attributes() {
		id.add(attr)
		id.Owner.parse(attr, v)
		switch attr {
		case abi.RDMA_NLDEV_ATTR_RES_CM_IDN:
			id.Number = v.u32()
		case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
			id.Port = v.u32()
		case abi.RDMA_NLDEV_ATTR_RES_LQPN:
			id.QP = v.u32()
		case abi.RDMA_NLDEV_ATTR_RES_TYPE:
			id.QPType = QPType(v.u8())
		case abi.RDMA_NLDEV_ATTR_RES_PS:
			id.PortSpace = PortSpace(v.u32())
		case abi.RDMA_NLDEV_ATTR_RES_STATE:
			id.State, ok = CMState(v.u8()), true
		case abi.RDMA_NLDEV_ATTR_RES_SRC_ADDR:
			id.Local = addrPort(v)
		case abi.RDMA_NLDEV_ATTR_RES_DST_ADDR:
			id.Remote = addrPort(v)
		case abi.RDMA_NLDEV_ATTR_DRIVER:
			id.Driver = parseDriver(v)
		}
	}
	return id, ok
}

func addrPort(v value) netip.AddrPort {
	var sa abi.SockaddrStorage
	copy(sa[:], v)
	addr, _ := sockaddr.AddrPort(&sa)
	return addr
}
