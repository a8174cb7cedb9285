// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"sync"

	"purerdma/test/pci"
)

// Fabric implements pci.Fabric. All its devices have one lock. A message changes two devices,
// and its effects on both become visible at once. Interrupts are delivered after the lock is
// released.
type Fabric struct {
	mu         sync.Mutex
	devices    map[string]*Device
	connected  map[endpoints]*qp
	cookies    uint32      // number of QPs so far
	interrupts []interrupt // interrupts to deliver when the lock is released.
}

// interrupt is an interrupt that waits for the release of the lock.
type interrupt struct {
	d      *Device
	vector int
}

// endpoints contains the addresses and ports of a QP's connection, as in IPv4 and TCP headers.
type endpoints struct {
	source, destination         [4]byte
	sourcePort, destinationPort [2]byte
}

// reversed returns the endpoints of the peer.
func (e endpoints) reversed() endpoints {
	return endpoints{e.destination, e.source, e.destinationPort, e.sourcePort}
}

// New creates a fabric without devices.
func New() pci.Fabric {
	return &Fabric{devices: make(map[string]*Device), connected: make(map[endpoints]*qp)}
}

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

// Connect implements pci.Fabric. It must not be called concurrently, or during a call of Fault.
func (f *Fabric) Connect(o pci.Options) pci.Function {
	d := &Device{o: o, fabric: f, mem: o.Memory}
	f.devices[o.Name] = d
	d.Reset()
	return d
}
