// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// sysClass lists the RDMA devices of the kernel.
const sysClass = "/sys/class/infiniband"

// nodeOf returns the NUMA node of a device, or -1 if the kernel names none. class is the directory
// that lists the devices.
func nodeOf(class, device string) int {
	text, err := os.ReadFile(filepath.Join(class, device, "device", "numa_node"))
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 0 {
		return -1
	}
	return n
}
