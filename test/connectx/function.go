// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"fmt"

	"purerdma/test/pci"
)

// Vectors is the number of MSI-X vectors of the function.
const Vectors = 16

// identity is the identity of a ConnectX-5.
var identity = pci.Identity{
	Vendor: 0x15b3, Device: 0x1017, Subsystem: 0x0020, Class: pci.ClassEthernet,
	BARs: [6]uint64{BARSize}, Prefetchable: true,
	Vectors: Vectors, VectorTable: 0x2000, VectorPendingArray: 0x3000,
}

// Function presents a Device on a PCI bus. It has a configuration space, and BAR 0 with the
// initialization segment and the pages of doorbell registers. The implementation of the bus,
// such as a vfiouser.Server, may call its methods from any goroutine.
type Function struct {
	d      *Device
	config *pci.ConfigSpace
	cmdq   commandQueue
}

// NewFunction creates a PCI function of a device. A driver must start the firmware before it
// issues any other command.
func NewFunction(d *Device) *Function {
	d.fabric.lock()
	defer d.fabric.unlock()
	d.needsBoot = true
	return &Function{d: d, config: pci.NewConfigSpace(identity)}
}

// RegionSize returns the size of a region in bytes. Regions are BAR 0 and
// pci.ConfigRegion. Other regions have size 0.
func (f *Function) RegionSize(index int) uint64 {
	switch index {
	case 0:
		return BARSize
	case pci.ConfigRegion:
		return pci.ConfigSize
	}
	return 0
}

// ReadRegion reads from a region at an offset into p.
func (f *Function) ReadRegion(index int, offset uint64, p []byte) {
	clear(p)
	f.d.fabric.lock()
	defer f.d.fabric.unlock()
	switch {
	case f.d.removed:
		for i := range p {
			p[i] = 0xff
		}
	case index == pci.ConfigRegion:
		f.config.Read(offset, p)
	case index == 0 && offset < initSegmentSize:
		seg := f.initSegment()
		copy(p, seg[offset:])
	}
}

// WriteRegion writes p to a region on behalf of the driver.
func (f *Function) WriteRegion(index int, offset uint64, p []byte) {
	f.d.fabric.lock()
	defer f.d.fabric.unlock()
	switch {
	case f.d.removed:
	case index == pci.ConfigRegion:
		f.config.Write(offset, p)
	case index == 0 && offset < initSegmentSize:
		f.writeInitSegment(int(offset), p)
	case index == 0 && offset >= firstUAR*PageSize && offset < BARSize:
		f.d.ring(uint32(offset/PageSize), int(offset%PageSize), p)
	case index == 0:
		f.d.violation("BAR 0", "a store of %d bytes to %#x, where no register is", len(p), offset)
	default:
		f.d.violation(fmt.Sprintf("region %d", index), "a store to it")
	}
}

// Reset resets the function.
func (f *Function) Reset() {
	f.d.fabric.lock()
	defer f.d.fabric.unlock()
	f.config = pci.NewConfigSpace(identity)
	f.cmdq = commandQueue{}
	f.d.reset()
}
