// SPDX-License-Identifier: Apache-2.0

package pci

import (
	"fmt"
	"sync"
)

// A Function is the implementation of a PCI function. Offsets and lengths of accesses are
// within a region. Calls may come from any goroutine, but not concurrently.
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

// Memory is a function's access to the memory of the host. A model reads and writes host
// memory only through it, so a wrong address cannot access any other memory.
type Memory interface {
	// Bytes returns n bytes of the host's memory from a DMA address on, without copying. It
	// returns nil unless they are mapped in one piece. n may have any value, even a negative
	// one.
	Bytes(addr uint64, n int) []byte
}

// A Fabric creates functions, and connects them. Its lock stops all of them. The lock is held
// while the mappings of their memories change.
type Fabric interface {
	sync.Locker

	// Vectors returns the number of MSI-X vectors of each function.
	Vectors() int

	// Connect creates a function.
	Connect(Options) Function

	// Fault injects a fault into the function with a name. The arguments depend on the fault. It
	// returns an error for an unknown fault or wrong arguments.
	Fault(function, fault string, args []string) error
}

// Options configures one function of a Fabric.
type Options struct {
	// Name is the function's name in traces, violations and faults.
	Name string
	// MAC is the hardware address of the function's port. A zero address lets the fabric choose
	// one.
	MAC [6]byte
	// Memory is the host's memory.
	Memory Memory
	// Interrupt is called for each interrupt. It may use the function.
	Interrupt func(vector int)
	// Violation is called for an operation that a driver must not do. It must not use the
	// function.
	Violation func(Violation)
	// Trace, if not nil, is called for every operation. It must not use the function.
	Trace func(fmt.Stringer)
}

// Violation is an operation that a driver must not do.
type Violation struct {
	Device string
	Object string // such as "QP 0x41" or "CREATE_CQ"
	Text   string
}

func (v Violation) Error() string {
	return fmt.Sprintf("%s: %s: %s", v.Device, v.Object, v.Text)
}
