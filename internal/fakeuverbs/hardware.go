// SPDX-License-Identifier: Apache-2.0

package fakeuverbs

// Hardware creates a program's objects in a device as well as in the kernel. Without it the objects
// exist in the fake kernel only. Its methods run with the kernel's lock held.
type Hardware interface {
	AllocPD(*PD) error
	DeallocPD(*PD)
	// RegMR sets the region's keys. ReregMR updates the device to the changed region, and may set new
	// keys.
	RegMR(*MR) error
	ReregMR(*MR) error
	DeregMR(*MR) error
	// AllocMW sets the window's key.
	AllocMW(*MW) error
	DeallocMW(*MW)
	OpenXRCD(*XRCD) error
	CloseXRCD(*XRCD)
}

// endHardware destroys all objects of the context in the device.
func (c *Context) endHardware() {
	if c.Hardware == nil {
		return
	}
	for _, w := range c.MWs {
		c.Hardware.DeallocMW(w)
	}
	for _, m := range c.MRs {
		c.Hardware.DeregMR(m)
	}
	for _, x := range c.XRCDs {
		c.Hardware.CloseXRCD(x)
	}
	for _, p := range c.PDs {
		c.Hardware.DeallocPD(p)
	}
}
