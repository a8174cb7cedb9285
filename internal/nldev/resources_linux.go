// SPDX-License-Identifier: Apache-2.0

package nldev

import (
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"purerdma/abi"
)

// Resources counts the kernel's objects per device and kind, as "rxe0" and "qp"
// (RDMA_NLDEV_CMD_RES_GET, rdma-resource(8)). Attributes of newer kernels are skipped.
func Resources() (map[string]map[string]uint64, error) {
	req := nl.NewNetlinkRequest(messageType(abi.RDMA_NLDEV_CMD_RES_GET), unix.NLM_F_DUMP)
	msgs, err := req.Execute(unix.NETLINK_RDMA, 0)
	if err != nil {
		return nil, err
	}
	return parseResources(msgs), nil
}

func parseResources(msgs [][]byte) map[string]map[string]uint64 {
	devices := make(map[string]map[string]uint64)
	for _, m := range msgs {
		var device string
		counts := make(map[string]uint64)
		for typ, val := range attributes(m) {
			switch typ {
			case abi.RDMA_NLDEV_ATTR_DEV_NAME:
				device = text(val)
			case abi.RDMA_NLDEV_ATTR_RES_SUMMARY:
				for typ, entry := range attributes(val) {
					if typ != abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY {
						continue
					}
					var kind string
					var n uint64
					for typ, val := range attributes(entry) {
						switch typ {
						case abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME:
							kind = text(val)
						case abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR:
							n = number(val)
						}
					}
					counts[kind] = n
				}
			}
		}
		devices[device] = counts
	}
	return devices
}
