// SPDX-License-Identifier: Apache-2.0

package main

import "strings"

// kernelLine returns the time in microseconds and the text of a record of /dev/kmsg.
func kernelLine(record string) string {
	head, text, _ := strings.Cut(record, ";")
	text, _, _ = strings.Cut(text, "\n") // the rest are properties
	if fields := strings.Split(head, ","); len(fields) > 2 {
		return fields[2] + " " + text
	}
	return text
}

// topics are parts of the lines of the kernel's log that a report needs.
var topics = []string{
	"mlx", "infiniband", "rdma", "ib_", "uverbs", "iw_", "rxe", "siw", "roce", "irdma", "bnxt", "efa", "hns", "mana", "ionic", "erdma", "qedr", "cxgb",
	"pcieport", "aer:", "dmar", "iommu", "hung", "bug:", "warning:", "call trace", "out of memory", "memlock",
}

// concerns reports whether a line of the kernel's log has one of the topics or the device.
func concerns(line, device string) bool {
	line = strings.ToLower(line)
	for _, t := range topics {
		if strings.Contains(line, t) {
			return true
		}
	}
	return device != "" && strings.Contains(line, strings.ToLower(device))
}
