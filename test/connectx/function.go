// SPDX-License-Identifier: Apache-2.0

package connectx

import "fmt"

// Function is a Device as a driver finds it on a PCI bus: a configuration space, and
// BAR 0 with the initialization segment and the pages of doorbell registers. Who plays
// the bus calls its methods, from any goroutine, such as a vfiouser.Server.
type Function struct {
	d      *Device
	config []byte
	cmdq   commandQueue
}

// NewFunction makes a PCI function of a device. A driver has to start the firmware
// before it takes any other command.
func NewFunction(d *Device) *Function {
	d.fabric.lock()
	defer d.fabric.unlock()
	d.needsBoot = true
	return &Function{d: d, config: newConfig()}
}

// regionConfig is the index of the configuration space among the regions; BAR 0 is
// region 0.
const regionConfig = 7

// RegionSize returns the size of a region in bytes: BAR 0, and the configuration
// space, which is region 7. There are no others.
func (f *Function) RegionSize(index int) uint64 {
	switch index {
	case 0:
		return BARSize
	case regionConfig:
		return ConfigSize
	}
	return 0
}

// ReadRegion fills p with what is at an offset of a region.
func (f *Function) ReadRegion(index int, offset uint64, p []byte) {
	clear(p)
	f.d.fabric.lock()
	defer f.d.fabric.unlock()
	switch {
	case f.d.removed:
		for i := range p {
			p[i] = 0xff
		}
	case index == regionConfig && offset < ConfigSize:
		copy(p, f.config[offset:])
	case index == 0 && offset < initSegmentSize:
		seg := f.initSegment()
		copy(p, seg[offset:])
	}
}

// WriteRegion has the driver write p to a region.
func (f *Function) WriteRegion(index int, offset uint64, p []byte) {
	f.d.fabric.lock()
	defer f.d.fabric.unlock()
	switch {
	case f.d.removed:
	case index == regionConfig && offset < ConfigSize:
		writeConfig(f.config, int(offset), p)
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

// Reset is a reset of the function.
func (f *Function) Reset() {
	f.d.fabric.lock()
	defer f.d.fabric.unlock()
	f.config = newConfig()
	f.cmdq = commandQueue{}
	f.d.reset()
}
