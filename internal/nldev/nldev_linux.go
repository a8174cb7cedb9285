// SPDX-License-Identifier: Apache-2.0

package nldev

import (
	"encoding/binary"
	"errors"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"purerdma/abi"
)

// Devices lists the RDMA devices that the calling thread's network namespace
// sees (RDMA_NLDEV_CMD_GET). A kernel without NETLINK_RDMA gives
// EPROTONOSUPPORT.
func Devices() ([]Device, error) {
	// A dump that a coming or going device interrupted is repeated: it may
	// have left one out.
	for range 4 {
		req := nl.NewNetlinkRequest(messageType(abi.RDMA_NLDEV_CMD_GET), unix.NLM_F_DUMP)
		msgs, err := req.Execute(unix.NETLINK_RDMA, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return parseDevices(msgs), nil
	}
	return nil, unix.EINTR
}

// Uverbs returns the verbs character device of the RDMA device with an index
// (RDMA_NLDEV_CMD_GET_CHARDEV, Linux 5.1). The kernel loads ib_uverbs for it if
// it can, and answers an error if the device has none.
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
