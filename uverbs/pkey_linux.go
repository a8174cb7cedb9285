// SPDX-License-Identifier: Apache-2.0

package uverbs

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

var _ PKeyTable = System{}

// PKey reads /sys/class/infiniband/NAME/ports/PORT/pkeys/INDEX.
func (System) PKey(d DeviceInfo, port uint8, index int) (uint16, error) {
	return sysfsPKey(sysClass, d, port, index)
}

func sysfsPKey(class string, d DeviceInfo, port uint8, index int) (uint16, error) {
	b, err := os.ReadFile(filepath.Join(class, "infiniband", d.Name, "ports", strconv.Itoa(int(port)), "pkeys", strconv.Itoa(index)))
	if err != nil {
		return 0, err
	}
	key, err := strconv.ParseUint(strings.TrimSpace(string(b)), 0, 16) // "0xffff"
	return uint16(key), err
}
