// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"fmt"

	"purerdma/test/pci"
)

// RegionSize implements pci.Function.
func (d *Device) RegionSize(index int) uint64 {
	switch {
	case index == pci.ConfigRegion:
		return pci.ConfigSize
	case index >= 0 && index < len(bars):
		return bars[index]
	}
	return 0
}

// ReadRegion implements pci.Function. All registers read as zeros, except the health register and
// the register of the FIFO of doorbells.
func (d *Device) ReadRegion(index int, offset uint64, p []byte) {
	d.fabric.Lock()
	defer d.fabric.Unlock()
	clear(p)
	switch {
	case index == pci.ConfigRegion:
		d.config.Read(offset, p)
	case index == 0 && offset == regHealth && len(p) == 4:
		le.PutUint32(p, healthy)
	case index == 0 && offset >= fifoWindow && offset < fifoWindow+windowSize && len(p) == 4:
		le.PutUint32(p, d.readWindow(uint32(offset)))
	}
}

// WriteRegion implements pci.Function.
func (d *Device) WriteRegion(index int, offset uint64, p []byte) {
	d.fabric.Lock()
	defer d.fabric.Unlock()
	switch {
	case index == pci.ConfigRegion:
		d.config.Write(offset, p)
	case index == 0 && len(p) == 4 && offset%4 == 0 && offset < barSize:
		d.writeRegister(int(offset), p)
	case index == doorbellBAR && offset >= doorbellStart && offset < doorbellSize:
		d.ring(uint32(offset), p)
	default:
		d.violation(fmt.Sprintf("BAR %d", index), "a store of %d bytes to %#x, where no register is", len(p), offset)
	}
}

// writeRegister handles a store of 4 bytes to BAR 0.
func (d *Device) writeRegister(off int, p []byte) {
	switch {
	case off < regRequest+requestWindow:
		copy(d.request[off-regRequest:], p)
	case off == regRequestTrigger:
		d.executeRequest()
	case off == fifoMap:
		d.window = le.Uint32(p)
	case off >= regWindows && off < regWindowsEnd: // the other windows read as zeros
	case off >= regChannel && off < regChannelProd+4 || off == regChannelTrigger:
		d.writeChannel(off, le.Uint32(p))
	default:
		d.violation("registers", "a store of %#x to %#x", le.Uint32(p), off)
	}
}
