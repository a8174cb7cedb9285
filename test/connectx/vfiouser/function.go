// SPDX-License-Identifier: Apache-2.0

//go:build linux

package vfiouser

// A Function is the implementation of a PCI function. The Server calls it from one goroutine,
// with offsets and lengths within a region.
type Function interface {
	// RegionSize returns the size in bytes of the region with an index, which is a BAR (0 to 5)
	// or ConfigRegion. A missing region has size 0.
	RegionSize(index int) uint64

	// ReadRegion reads from a region at an offset into p, and WriteRegion writes p. Each call
	// is one access of the processor, usually of 1 to 8 bytes. They must not keep p.
	ReadRegion(index int, offset uint64, p []byte)
	WriteRegion(index int, offset uint64, p []byte)

	// Reset resets the function to its state at power-on.
	Reset()
}

// ConfigRegion is the index of the configuration space's region. Smaller indices are the BARs
// and the ROM (VFIO_PCI_CONFIG_REGION_INDEX of linux/vfio.h).
const ConfigRegion = 7

// numRegions is VFIO_PCI_NUM_REGIONS, including VGA's region.
const numRegions = 9
