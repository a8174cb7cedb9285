// SPDX-License-Identifier: Apache-2.0

package connectx

// Config is what a device is made of.
type Config struct {
	// Name is what traces and violations call the device.
	Name string
	// Memory is the host's. It must be there.
	Memory Memory
	// Fabric is what the port is connected to; nil is a fabric of its own.
	Fabric *Fabric
	// Interrupt, if not nil, is called for each interrupt. It may use the
	// device; calls may be concurrent.
	Interrupt func(vector int)
	// Violation, if not nil, makes the device strict: it is called for what a
	// driver must not do although a card may tolerate it. The device's lock is
	// held, so it must not use the device.
	Violation func(Violation)
	// Trace, if not nil, is called for everything that happens, see [Record].
	// The device's lock is held, so it must not use the device.
	Trace func(Record)
}

// Device is one HCA with one port. Its methods may be called concurrently.
type Device struct {
	cfg    Config
	fabric *Fabric
	mem    Memory

	pds  table[*pd]
	uars table[*uar]
	eqs  table[*eq]
}

// New makes a device as it is after a reset, and connects it.
func New(cfg Config) *Device {
	d := &Device{cfg: cfg, fabric: cfg.Fabric, mem: cfg.Memory}
	if d.fabric == nil {
		d.fabric = NewFabric()
	}
	d.reset()
	d.fabric.join(d)
	return d
}

// Reset forgets everything, as a function-level reset does.
func (d *Device) Reset() {
	d.fabric.lock()
	defer d.fabric.unlock()
	d.reset()
}

// reset makes all tables empty. The fabric's lock is held, as in all methods that
// are not exported.
func (d *Device) reset() {
	d.pds = newTable[*pd]("PD", 1, 1<<24)
	d.uars = newTable[*uar]("UAR", firstUAR, endUAR)
	d.eqs = newTable[*eq]("EQ", 1, maxEQ+1)
}

// interrupt raises a vector once the lock is released.
func (d *Device) interrupt(vector int) {
	if d.cfg.Interrupt != nil {
		d.fabric.interrupts = append(d.fabric.interrupts, interrupt{d, vector})
	}
}
