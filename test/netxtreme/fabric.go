// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"sync"

	"purerdma/test/pci"
)

// Fabric implements pci.Fabric. It connects the ports of its devices. All its devices have one
// lock. A message changes two devices, and its effects on both become visible at once.
// Interrupts are delivered after the lock is released.
type Fabric struct {
	chip       uint16
	mu         sync.Mutex
	devices    []*Device
	interrupts []interrupt // interrupts to deliver when the lock is released.
}

// interrupt is an interrupt that waits for the release of the lock.
type interrupt struct {
	d      *Device
	vector int
}

// New creates a fabric without devices. Its devices will be BCM57508.
func New() pci.Fabric { return &Fabric{chip: chipP5} }

// NewP7 creates a fabric without devices. Its devices will be BCM57608.
func NewP7() pci.Fabric { return &Fabric{chip: chipP7} }

// Lock implements pci.Fabric.
func (f *Fabric) Lock() { f.mu.Lock() }

// Unlock implements pci.Fabric. It delivers the pending interrupts.
func (f *Fabric) Unlock() {
	pending := f.interrupts
	f.interrupts = nil
	f.mu.Unlock()
	for _, i := range pending {
		i.d.o.Interrupt(i.vector)
	}
}

// Vectors implements pci.Fabric.
func (f *Fabric) Vectors() int { return vectors }

// Connect implements pci.Fabric.
func (f *Fabric) Connect(o pci.Options) pci.Function {
	d := &Device{o: o, fabric: f, mem: o.Memory, mac: o.MAC}
	f.Lock()
	f.devices = append(f.devices, d)
	if n := len(f.devices); d.mac == [6]byte{} {
		d.mac = [6]byte{0x52, 0x54, 0x00, 0x0b, byte(n >> 8), byte(n)}
	}
	f.Unlock()
	d.Reset()
	return d
}
