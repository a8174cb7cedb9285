// SPDX-License-Identifier: Apache-2.0

//go:build linux

package vfiouser

// A Function is a PCI function as a Server offers it. The Server calls it from
// one goroutine, with offsets and lengths that lie inside a region.
type Function interface {
	// RegionSize is the size in bytes of the region with that index: a BAR
	// (0 to 5) or ConfigRegion. A region that is not there has size 0.
	RegionSize(index int) uint64

	// ReadRegion fills p with what is at an offset of a region, and
	// WriteRegion has p written there: one access of the processor, of 1 to
	// 8 bytes as a rule. They must not keep p.
	ReadRegion(index int, offset uint64, p []byte)
	WriteRegion(index int, offset uint64, p []byte)

	// Reset brings the function to the state of power-on.
	Reset()
}

// ConfigRegion is the index of the region that is the configuration space;
// those below it are the BARs and the ROM (VFIO_PCI_CONFIG_REGION_INDEX of
// linux/vfio.h).
const ConfigRegion = 7

// numRegions is VFIO_PCI_NUM_REGIONS: the last is VGA's.
const numRegions = 9
