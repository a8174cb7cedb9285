// SPDX-License-Identifier: Apache-2.0

package nldev

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"

	"purerdma/abi"
)

func attrs(list ...*nl.RtAttr) []byte {
	var b []byte
	for _, a := range list {
		b = append(b, a.Serialize()...)
	}
	return b
}

func TestParse(t *testing.T) {
	dev := attrs(
		nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_DEV_INDEX, nl.Uint32Attr(3)),
		nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_DEV_NAME, nl.ZeroTerminated("rxe0")),
		nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_DEV_NODE_TYPE, nl.Uint8Attr(1)),
		nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_NODE_GUID, nl.Uint64Attr(0x1122334455667788)),
	)
	got := parseDevices([][]byte{dev, attrs(nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_DEV_INDEX, nl.Uint32Attr(9)))})
	want := []Device{{Index: 3, Name: "rxe0", NodeGUID: 0x1122334455667788, NodeType: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	c := parseChardev(attrs(
		nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_CHARDEV_ABI, nl.Uint64Attr(2)),
		nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_CHARDEV_NAME, nl.ZeroTerminated("uverbs0")),
		nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, nl.Uint32Attr(14)),
	))
	if diff := cmp.Diff(Chardev{Name: "uverbs0", ABIVersion: 2, DriverID: abi.RDMA_DRIVER_RXE}, c); diff != "" {
		t.Error(diff)
	}
	// Whatever is cut off, the rest is read and nothing is read beyond.
	for n := range dev {
		parseDevices([][]byte{dev[:n]})
	}
}
