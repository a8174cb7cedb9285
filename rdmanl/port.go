// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"purerdma/abi"
	"purerdma/internal/enum"
)

// Port is one port of a device (RDMA_NLDEV_CMD_PORT_GET).
type Port struct {
	Attributes
	Device     uint32 // index
	DeviceName string
	Number     uint32 // from 1
	State      PortState
	PhysState  PhysState
	// Caps (IB_PORT_* of the kernel's ib_verbs.h) and the next four fields are for InfiniBand.
	Caps         uint64
	SubnetPrefix uint64 // the first byte on the wire is the highest
	LID          uint32
	SMLID        uint32 // of the subnet manager
	LMC          uint8  // number of low bits of LID that select a path
	Ifindex      uint32 // of the network interface, 0 if it has none in this network namespace
	Interface    string
}

// PortState is the state of a port (enum ib_port_state of the kernel).
type PortState uint8

// States of a port. Connections need PortActive.
const (
	PortNop PortState = iota
	PortDown
	PortInit
	PortArmed
	PortActive
	PortActiveDefer
)

// String returns the name of the state, as "ACTIVE".
func (s PortState) String() string {
	return enum.Name(s, "PortState", []string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"})
}

// PhysState is the state of a port's link (enum ib_port_phys_state of the kernel).
type PhysState uint8

// States of a link.
const (
	PhysSleep PhysState = iota + 1
	PhysPolling
	PhysDisabled
	PhysTraining
	PhysLinkUp
	PhysLinkErrorRecovery
	PhysTest
)

// String returns the name of the state, as "LINK_UP".
func (s PhysState) String() string {
	return enum.Name(s, "PhysState", []string{"NOP", "SLEEP", "POLLING", "DISABLED", "TRAINING", "LINK_UP", "LINK_ERROR_RECOVERY", "PHY_TEST"})
}

// Ports lists the ports of a device.
func (c *Conn) Ports(device uint32) ([]Port, error) {
	return list(c, newRequest("list ports of", abi.RDMA_NLDEV_CMD_PORT_GET).device(device), func(m value) []Port {
		if p, ok := parsePort(m); ok {
			return []Port{p}
		}
		return nil
	})
}

// Port returns one port of a device.
func (c *Conn) Port(device, port uint32) (Port, error) {
	r := newRequest("get", abi.RDMA_NLDEV_CMD_PORT_GET).device(device).port(port)
	m, err := c.get(r)
	if err != nil {
		return Port{}, err
	}
	p, ok := parsePort(m)
	if !ok {
		return Port{}, r.wrap(errNoAnswer)
	}
	return p, nil
}

func parsePort(m value) (p Port, ok bool) {
	for attr, v := range m.attributes() {
		p.add(attr)
		switch attr {
		case abi.RDMA_NLDEV_ATTR_DEV_INDEX:
			p.Device = v.u32()
		case abi.RDMA_NLDEV_ATTR_DEV_NAME:
			p.DeviceName = v.text()
		case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
			p.Number = v.u32()
		case abi.RDMA_NLDEV_ATTR_PORT_STATE:
			p.State = PortState(v.u8())
		case abi.RDMA_NLDEV_ATTR_PORT_PHYS_STATE:
			p.PhysState = PhysState(v.u8())
		case abi.RDMA_NLDEV_ATTR_CAP_FLAGS:
			p.Caps = v.number()
		case abi.RDMA_NLDEV_ATTR_SUBNET_PREFIX:
			p.SubnetPrefix = v.number()
		case abi.RDMA_NLDEV_ATTR_LID:
			p.LID = v.u32()
		case abi.RDMA_NLDEV_ATTR_SM_LID:
			p.SMLID = v.u32()
		case abi.RDMA_NLDEV_ATTR_LMC:
			p.LMC = v.u8()
		case abi.RDMA_NLDEV_ATTR_NDEV_INDEX:
			p.Ifindex = v.u32()
		case abi.RDMA_NLDEV_ATTR_NDEV_NAME:
			p.Interface = v.text()
		}
	}
	return p, p.Number != 0
}
