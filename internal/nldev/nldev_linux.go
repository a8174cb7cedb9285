// SPDX-License-Identifier: Apache-2.0

package nldev

import (
	"encoding/binary"
	"errors"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"purerdma/abi"
)

// Devices lists the RDMA devices that are visible in the calling thread's network namespace
// (RDMA_NLDEV_CMD_GET). A kernel without NETLINK_RDMA returns EPROTONOSUPPORT.
func Devices() ([]Device, error) {
	msgs, err := dump(func() *nl.NetlinkRequest {
		return nl.NewNetlinkRequest(messageType(abi.RDMA_NLDEV_CMD_GET), unix.NLM_F_DUMP)
	})
	if err != nil {
		return nil, err
	}
	return parseDevices(msgs), nil
}

// dump requests a list. If a device was added or removed during the request, the list may be
// incomplete, and dump requests it again.
func dump(request func() *nl.NetlinkRequest) ([][]byte, error) {
	for range 4 {
		msgs, err := request().Execute(unix.NETLINK_RDMA, 0)
		if !errors.Is(err, unix.EINTR) {
			return msgs, err
		}
	}
	return nil, unix.EINTR
}

// Ports lists the ports of the RDMA device with an index
// (RDMA_NLDEV_CMD_PORT_GET).
func Ports(index uint32) ([]Port, error) {
	msgs, err := dump(func() *nl.NetlinkRequest {
		req := nl.NewNetlinkRequest(messageType(abi.RDMA_NLDEV_CMD_PORT_GET), unix.NLM_F_DUMP)
		req.AddData(nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_DEV_INDEX, nl.Uint32Attr(index)))
		return req
	})
	if err != nil {
		return nil, err
	}
	return parsePorts(msgs), nil
}

// SystemInfo returns the settings of the RDMA subsystem (RDMA_NLDEV_CMD_SYS_GET). Settings that the
// kernel does not report are false. The exception is SharedNetNS, which older kernels always have.
func SystemInfo() (System, error) {
	msgs, err := nl.NewNetlinkRequest(messageType(abi.RDMA_NLDEV_CMD_SYS_GET), 0).Execute(unix.NETLINK_RDMA, 0)
	if err != nil {
		return System{}, err
	}
	if len(msgs) != 1 {
		return System{}, unix.EBADMSG
	}
	return parseSystem(msgs[0]), nil
}

// Uverbs returns the verbs character device of the RDMA device with an index
// (RDMA_NLDEV_CMD_GET_CHARDEV, Linux 5.1). The kernel loads ib_uverbs for it if it can, and returns
// an error if the device has none.
func Uverbs(index uint32) (Chardev, error) {
	req := nl.NewNetlinkRequest(messageType(abi.RDMA_NLDEV_CMD_GET_CHARDEV), 0)
	req.AddData(nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_CHARDEV_TYPE, nl.ZeroTerminated("uverbs")))
	req.AddData(nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_DEV_INDEX, nl.Uint32Attr(index)))
	msgs, err := req.Execute(unix.NETLINK_RDMA, 0)
	if err != nil {
		return Chardev{}, err
	}
	if len(msgs) != 1 {
		return Chardev{}, unix.EBADMSG
	}
	return parseChardev(msgs[0]), nil
}

func messageType(cmd int) int {
	return abi.RDMA_NL_NLDEV<<abi.RDMA_NL_GET_CLIENT_SHIFT | cmd
}

func parseDevices(msgs [][]byte) []Device {
	var devs []Device
	for _, m := range msgs {
		var d Device
		for typ, val := range attributes(m) {
			switch typ {
			case abi.RDMA_NLDEV_ATTR_DEV_INDEX:
				d.Index = uint32(number(val))
			case abi.RDMA_NLDEV_ATTR_DEV_NAME:
				d.Name = text(val)
			case abi.RDMA_NLDEV_ATTR_NODE_GUID:
				d.NodeGUID = number(val)
			case abi.RDMA_NLDEV_ATTR_DEV_NODE_TYPE:
				d.NodeType = uint8(number(val))
			case abi.RDMA_NLDEV_ATTR_DEV_PROTOCOL:
				d.Protocol = text(val)
			case abi.RDMA_NLDEV_ATTR_FW_VERSION:
				d.Firmware = text(val)
			}
		}
		if d.Name != "" {
			devs = append(devs, d)
		}
	}
	return devs
}

func parseChardev(m []byte) Chardev {
	var c Chardev
	for typ, val := range attributes(m) {
		switch typ {
		case abi.RDMA_NLDEV_ATTR_CHARDEV_NAME:
			c.Name = text(val)
		case abi.RDMA_NLDEV_ATTR_CHARDEV_ABI:
			c.ABIVersion = uint32(number(val))
		case abi.RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID:
			c.DriverID = abi.DriverID(number(val))
		}
	}
	return c
}

func parsePorts(msgs [][]byte) []Port {
	var ports []Port
	for _, m := range msgs {
		var p Port
		for typ, val := range attributes(m) {
			switch typ {
			case abi.RDMA_NLDEV_ATTR_PORT_INDEX:
				p.Number = uint32(number(val))
			case abi.RDMA_NLDEV_ATTR_PORT_STATE:
				p.State = uint8(number(val))
			case abi.RDMA_NLDEV_ATTR_PORT_PHYS_STATE:
				p.PhysState = uint8(number(val))
			case abi.RDMA_NLDEV_ATTR_LID:
				p.LID = uint32(number(val))
			case abi.RDMA_NLDEV_ATTR_NDEV_INDEX:
				p.Ifindex = uint32(number(val))
			case abi.RDMA_NLDEV_ATTR_NDEV_NAME:
				p.Interface = text(val)
			}
		}
		if p.Number != 0 {
			ports = append(ports, p)
		}
	}
	return ports
}

func parseSystem(m []byte) System {
	s := System{SharedNetNS: true}
	for typ, val := range attributes(m) {
		switch typ {
		case abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE:
			s.SharedNetNS = number(val) != 0
		case abi.RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK:
			s.CopyOnFork = number(val) != 0
		case abi.RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE:
			s.PrivilegedQKey = number(val) != 0
		}
	}
	return s
}

// attributes iterates over the netlink attributes of m, up to the first that
// does not fit. RDMA_NLDEV messages have no header of their own before them.
func attributes(m []byte) func(yield func(typ uint16, val []byte) bool) {
	return func(yield func(uint16, []byte) bool) {
		for len(m) >= unix.SizeofRtAttr {
			n := int(binary.NativeEndian.Uint16(m))
			typ := binary.NativeEndian.Uint16(m[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if n < unix.SizeofRtAttr || n > len(m) {
				return
			}
			if !yield(typ, m[unix.SizeofRtAttr:n]) {
				return
			}
			m = m[min(len(m), (n+3)&^3):]
		}
	}
}

// number decodes an attribute whose width differs between kernels and fields.
func number(b []byte) uint64 {
	switch len(b) {
	case 1:
		return uint64(b[0])
	case 4:
		return uint64(binary.NativeEndian.Uint32(b))
	case 8:
		return binary.NativeEndian.Uint64(b)
	}
	return 0
}

func text(b []byte) string { return unix.ByteSliceToString(b) }
