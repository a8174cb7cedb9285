// SPDX-License-Identifier: Apache-2.0

package hwcheck

import (
	"encoding/binary"
	"fmt"
)

// Offsets in the configuration space of a PCI function, and in its PCI Express capability.
const (
	pciCapabilities = 0x34 // offset of the first capability
	pciExpress      = 0x10 // ID of the PCI Express capability
	pciDeviceCtl    = 8    // offset of the Device Control register in it
)

// pciControl describes the Device Control register in a configuration space, or returns "" if the bytes do not
// contain it. Only root reads more than 64 bytes.
func pciControl(config []byte) string {
	if len(config) <= pciCapabilities {
		return ""
	}
	at := int(config[pciCapabilities] &^ 3)
	for range 48 { // a list of more capabilities has a loop
		if at == 0 || at+pciDeviceCtl+2 > len(config) {
			return ""
		}
		if config[at] == pciExpress {
			ctl := binary.LittleEndian.Uint16(config[at+pciDeviceCtl:])
			return fmt.Sprintf("max payload %d, max read request %d, relaxed ordering %t", 128<<(ctl>>5&7), 128<<(ctl>>12&7), ctl&0x10 != 0)
		}
		at = int(config[at+1] &^ 3)
	}
	return ""
}
