// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"fmt"

	"purerdma/test/pci"
)

// vectors is the number of MSI-X vectors.
const vectors = 32

// Chips are also the identities of their PCI functions.
const (
	chipP5 = 0x1750 // BCM57508
	chipP7 = 0x1760 // BCM57608
)

// bars contains the sizes of the BARs. BAR 4 contains only the vectors.
var bars = [6]uint64{0: barSize, doorbellBAR: doorbellSize, 4: 64 << 10}

// subsystem distinguishes the model from a card ("PR"). cmd/internal/hwcheck reads it.
const subsystem = 0x5052

// identity returns the identity of a card with a chip.
func identity(chip uint16) pci.Identity {
	return pci.Identity{
		Vendor: 0x14e4, Device: chip, Subsystem: subsystem, Class: pci.ClassEthernet, BARs: bars, Prefetchable: true, AtomicOps: true,
		Vectors: vectors, VectorBAR: 4, VectorTable: 0, VectorPendingArray: 0x8000,
	}
}

// Device is one port of a card. It implements pci.Function. Its methods may be called
// concurrently.
type Device struct {
	o      pci.Options
	fabric *Fabric
	mem    pci.Memory
	mac    [6]byte

	config  *pci.ConfigSpace
	request [requestWindow]byte

	firmware
	port
	rings
	channel
	rdma
}

// Reset implements pci.Function.
func (d *Device) Reset() {
	d.fabric.Lock()
	defer d.fabric.Unlock()
	d.config = pci.NewConfigSpace(identity(d.fabric.chip))
	d.request = [requestWindow]byte{}
	d.reset()
}

// reset clears all objects. The fabric's lock is held, as in all other methods.
func (d *Device) reset() {
	d.firmware = firmware{}
	d.rings = newRings()
	d.channel = channel{}
	d.resetRDMA()
}

// p7 reports whether the chip is one of the generation P7. Its requests have variable sizes, and
// its notifications contain toggles.
func (d *Device) p7() bool { return d.fabric.chip == chipP7 }

// violation reports a violation.
func (d *Device) violation(object, format string, args ...any) {
	if d.o.Violation != nil {
		d.o.Violation(pci.Violation{Device: d.o.Name, Object: object, Text: fmt.Sprintf(format, args...)})
	}
}

// A record is an operation in a trace.
type record string

func (r record) String() string { return string(r) }

// trace traces an operation.
func (d *Device) trace(format string, args ...any) {
	if d.o.Trace != nil {
		d.o.Trace(record(d.o.Name + " " + fmt.Sprintf(format, args...)))
	}
}

// interrupt raises a vector after the lock is released.
func (d *Device) interrupt(vector int) {
	if d.o.Interrupt != nil {
		d.fabric.interrupts = append(d.fabric.interrupts, interrupt{d, vector})
	}
}
