// SPDX-License-Identifier: Apache-2.0

package nldev

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purerdma/abi"
)

// attribute encodes one netlink attribute.
func attribute(typ uint16, val []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(val)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = append(b, val...)
	return append(b, make([]byte, -len(b)&3)...)
}

func TestParseResources(t *testing.T) {
	entry := func(kind string, n uint64) []byte {
		b := attribute(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, []byte(kind+"\x00"))
		b = append(b, attribute(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, binary.NativeEndian.AppendUint64(nil, n))...)
		// Newer kernels add these attributes.
		b = append(b, attribute(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_MAX, make([]byte, 8))...)
		return attribute(abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY, append(b, attribute(9999, nil)...))
	}
	msg := attribute(abi.RDMA_NLDEV_ATTR_DEV_NAME, []byte("rxe0\x00"))
	msg = append(msg, attribute(abi.RDMA_NLDEV_ATTR_RES_SUMMARY, append(entry("qp", 3), entry("cq", 1<<33)...))...)
	got := parseResources([][]byte{msg})
	want := map[string]map[string]uint64{"rxe0": {"qp": 3, "cq": 1 << 33}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parseResources() differs (-want +got):\n%s", diff)
	}
	// Truncated messages must not cause a panic.
	for n := range msg {
		parseResources([][]byte{msg[:n]})
	}
}
