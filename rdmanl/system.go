// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"errors"

	"purerdma/abi"
)

// System holds the settings of the kernel's RDMA subsystem for all devices (RDMA_NLDEV_CMD_SYS_GET).
type System struct {
	// SharedNetNS makes a device visible in all network namespaces, and not only in its own.
	SharedNetNS bool
	// CopyOnFork makes fork copy the memory that a device may reach for the child, so that the
	// parent's stays at its physical address (Linux 5.13).
	CopyOnFork bool
	// PrivilegedQKey allows any program to use controlled QKeys (Linux 6.7).
	PrivilegedQKey bool
	// Monitor reports whether the kernel sends the events of a Monitor (Linux 6.12).
	Monitor bool
}

// System returns the settings. Settings that the kernel does not report are false. The exception is
// SharedNetNS, which older kernels always have.
func (c *Conn) System() (System, error) {
	m, err := c.get(newRequest("query RDMA subsystem", abi.RDMA_NLDEV_CMD_SYS_GET))
	if err != nil {
		return System{}, err
	}
	return parseSystem(m), nil
}

func parseSystem(m value) System {
	s := System{SharedNetNS: true}
	for attr, v := range m.attributes() {
		switch attr {
		case abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE:
			s.SharedNetNS = v.flag()
		case abi.RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK:
			s.CopyOnFork = v.flag()
		case abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE:
			s.PrivilegedQKey = v.flag()
		case abi.RDMA_NLDEV_SYS_ATTR_MONITOR_MODE:
			s.Monitor = v.flag()
		}
	}
	return s
}

// SetSharedNetNS changes System.SharedNetNS (RDMA_NLDEV_CMD_SYS_SET). The kernel returns EBUSY while a
// network namespace other than the initial one exists.
func (c *Conn) SetSharedNetNS(on bool) error {
	return c.set(newRequest("set sharing of devices", abi.RDMA_NLDEV_CMD_SYS_SET).addBool(abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, on))
}

// SetPrivilegedQKey changes System.PrivilegedQKey (RDMA_NLDEV_CMD_SYS_SET, Linux 6.7). Older kernels
// ignore the setting without an error, so SetPrivilegedQKey returns errors.ErrUnsupported for them.
func (c *Conn) SetPrivilegedQKey(on bool) error {
	m, err := c.get(newRequest("query RDMA subsystem", abi.RDMA_NLDEV_CMD_SYS_GET))
	if err != nil {
		return err
	}
	known := false
	for attr := range m.attributes() {
		known = known || attr == abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE
	}
	if !known {
		return &OpError{Op: "set use of controlled QKeys", Err: errors.ErrUnsupported}
	}
	return c.set(newRequest("set use of controlled QKeys", abi.RDMA_NLDEV_CMD_SYS_SET).addBool(abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE, on))
}
