// SPDX-License-Identifier: Apache-2.0

package fakeuverbs

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"

	"purerdma/abi"
	"purerdma/uverbs"
)

func (c *Context) handleDevice() {
	c.Handle(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_GET_CONTEXT, c.GetContext)
	c.Handle(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_PORT, c.queryPort)
	c.Handle(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_GID_TABLE, c.queryGIDTable)
	c.Handle(abi.UVERBS_OBJECT_DEVICE, abi.UVERBS_METHOD_QUERY_GID_ENTRY, c.queryGIDEntry)
	c.Command(abi.IB_USER_VERBS_CMD_QUERY_DEVICE, func(cmd *Command) error {
		attr := c.attr()
		Answer(cmd, &attr.Base)
		return nil
	})
}

// GetContext answers GET_CONTEXT, except the driver's part.
func (c *Context) GetContext(req *uverbs.Request) error {
	vectors, support := uint32(1), uint64(abi.IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS)
	Put(req, abi.UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &vectors)
	Put(req, abi.UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &support)
	return nil
}

// attr is Attr with the GUIDs.
func (c *Context) attr() abi.UverbsExQueryDeviceResp {
	r := c.Attr
	r.ResponseLength = uint32(abi.Size[abi.UverbsExQueryDeviceResp]())
	binary.BigEndian.PutUint64(r.Base.NodeGUID[:], c.Info.NodeGUID)
	binary.BigEndian.PutUint64(r.Base.SysImageGUID[:], c.Info.NodeGUID)
	return r
}

// QueryDeviceEx answers the extended QUERY_DEVICE, except the driver's part. A fake registers it
// with Command if its driver supports the command.
func (c *Context) QueryDeviceEx(cmd *Command) error {
	attr := c.attr()
	Answer(cmd, &attr)
	return nil
}

func (c *Context) queryPort(req *uverbs.Request) error {
	if Value(req, abi.UVERBS_ATTR_QUERY_PORT_PORT_NUM) != 1 {
		return syscall.EINVAL
	}
	Put(req, abi.UVERBS_ATTR_QUERY_PORT_RESP, &abi.UverbsQueryPortRespEx{LegacyResp: c.Port})
	return nil
}

func (c *Context) queryGIDTable(req *uverbs.Request) error {
	entries := req.Find(abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES)
	if Value(req, abi.UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE) != uint64(abi.Size[abi.UverbsGIDEntry]()) {
		return syscall.EINVAL
	}
	b, n := entries.Buf, uint64(0)
	for i := range c.GIDs {
		if len(b) < abi.Size[abi.UverbsGIDEntry]() {
			return syscall.EINVAL
		}
		b = b[copy(b, abi.Bytes(&c.GIDs[i])):]
		n++
	}
	Put(req, abi.UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &n)
	return nil
}

func (c *Context) queryGIDEntry(req *uverbs.Request) error {
	port, index := Value(req, abi.UVERBS_ATTR_QUERY_GID_ENTRY_PORT), Value(req, abi.UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX)
	if port != 1 || index >= uint64(c.Port.GIDTblLen) {
		return syscall.EINVAL
	}
	for i := range c.GIDs {
		if uint64(c.GIDs[i].GIDIndex) == index {
			Put(req, abi.UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &c.GIDs[i])
			return nil
		}
	}
	return syscall.ENODATA
}

// RoCEPort returns an active RoCE port.
func RoCEPort() abi.UverbsQueryPortResp {
	return abi.UverbsQueryPortResp{
		State: 4, MaxMTU: 5, ActiveMTU: 3, MaxMsgSz: 1 << 30, GIDTblLen: 256, PKeyTblLen: 1, PhysState: 5, MaxVLNum: 1,
		ActiveWidth: 2, ActiveSpeed: 32,
		LinkLayer: 2, // Ethernet
		Flags:     abi.IB_UVERBS_QPF_GRH_REQUIRED,
	}
}

// IPv4GID returns entry 0 of the GID table of a device's port. It holds the only address of the
// network interface.
func IPv4GID(d uverbs.DeviceInfo) abi.UverbsGIDEntry {
	i := netInterface(d)
	return abi.UverbsGIDEntry{PortNum: 1, GIDType: abi.IB_UVERBS_GID_TYPE_ROCE_V2, GID: i.Addrs[0].As16(), NetdevIfindex: uint32(i.Index)}
}

// netInterface returns the network interface of a device's port. The first one has the address 10.0.0.1.
func netInterface(d uverbs.DeviceInfo) uverbs.Interface {
	return uverbs.Interface{Index: d.Index + 1, Name: fmt.Sprintf("eth%d", d.Index), Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(d.Index + 1)})}}
}
