// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// PortCounters reads the counters of a port from sysfs, by their names there. They are the files of the
// directories counters and hw_counters (/sys/class/infiniband/DEVICE/ports/PORT). Drivers differ in their
// names. A port without such directories has none.
func (System) PortCounters(d DeviceInfo, port int) (map[string]uint64, error) {
	return portCounters(sysClass, d.Name, port)
}

func portCounters(class, device string, port int) (map[string]uint64, error) {
	dir := filepath.Join(class, "infiniband", device, "ports", strconv.Itoa(port))
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("counters of port %d: %w", port, err)
	}
	counters := make(map[string]uint64)
	for _, kind := range []string{"counters", "hw_counters"} {
		entries, err := os.ReadDir(filepath.Join(dir, kind))
		if err != nil {
			continue // the driver has none
		}
		for _, e := range entries {
			if e.Name() == "lifespan" {
				continue // the interval in which the kernel updates the others
			}
			if n, err := strconv.ParseUint(readLine(filepath.Join(dir, kind, e.Name())), 10, 64); err == nil {
				counters[e.Name()] = n
			}
		}
	}
	return counters, nil
}
