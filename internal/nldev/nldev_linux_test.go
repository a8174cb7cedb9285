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
		t.Errorf("parseDevices() differs (-want +got):\n%s", diff)
	}
	c := parseChardev(attrs(
		nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_CHARDEV_ABI, nl.Uint64Attr(2)),
		nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_CHARDEV_NAME, nl.ZeroTerminated("uverbs0")),
		nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, nl.Uint32Attr(14)),
	))
	if diff := cmp.Diff(Chardev{Name: "uverbs0", ABIVersion: 2, DriverID: abi.RDMA_DRIVER_RXE}, c); diff != "" {
		t.Errorf("parseChardev() differs (-want +got):\n%s", diff)
	}
	// Truncated messages are parsed without a read beyond their end.
	for n := range dev {
		parseDevices([][]byte{dev[:n]})
	}
}

func TestParsePortsAndSystem(t *testing.T) {
	port := attrs(
		nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_PORT_INDEX, nl.Uint32Attr(1)),
		nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_PORT_STATE, nl.Uint8Attr(4)),
		nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_PORT_PHYS_STATE, nl.Uint8Attr(5)),
		nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_NDEV_INDEX, nl.Uint32Attr(7)),
		nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_NDEV_NAME, nl.ZeroTerminated("eth7")),
	)
	want := []Port{{Number: 1, State: 4, PhysState: 5, Ifindex: 7, Interface: "eth7"}}
	if diff := cmp.Diff(want, parsePorts([][]byte{port, nil})); diff != "" {
		t.Errorf("parsePorts() differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(System{SharedNetNS: true}, parseSystem(nil)); diff != "" {
		t.Errorf("parseSystem(nil) differs (-want +got):\n%s", diff)
	}
	sys := attrs(nl.NewRtAttr(abi.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, nl.Uint8Attr(0)), nl.NewRtAttr(abi.RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, nl.Uint8Attr(1)))
	if diff := cmp.Diff(System{CopyOnFork: true}, parseSystem(sys)); diff != "" {
		t.Errorf("parseSystem() differs (-want +got):\n%s", diff)
	}
}

// FuzzParse parses messages that no kernel sends.
func FuzzParse(f *testing.F) {
	f.Add(attrs(nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_DEV_INDEX, nl.Uint32Attr(3)), nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_DEV_NAME, nl.ZeroTerminated("rxe0"))))
	f.Add(attrs(nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_PORT_INDEX, nl.Uint32Attr(1)), nl.NewRtAttr(abi.RDMA_NLDEV_ATTR_PORT_STATE, nl.Uint8Attr(4))))
	f.Add([]byte{3, 0, 1, 0, 0xff, 0xff, 1, 0})
	f.Fuzz(func(t *testing.T, m []byte) {
		whole := 0
		for _, val := range attributes(m) {
			whole += len(val)
		}
		if whole > len(m) {
			t.Errorf("attributes have %d bytes, want at most the %d of the message", whole, len(m))
		}
		for _, d := range parseDevices([][]byte{m, m}) {
			if d.Name == "" {
				t.Errorf("parseDevices() has a device without a name: %+v", d)
			}
		}
		parsePorts([][]byte{m})
		parseSystem(m)
		parseChardev(m)
	})
}
