// SPDX-License-Identifier: Apache-2.0

package fakeuverbs

// Hardware makes in a device what a program makes in the kernel. Without it a
// kernel's objects are all there is. Its methods run with the kernel's lock held.
type Hardware interface {
	AllocPD(*PD) error
	DeallocPD(*PD)
	// RegMR gives the region its keys. ReregMR changes it to what it is now, and
	// may give it others.
	RegMR(*MR) error
	ReregMR(*MR) error
	DeregMR(*MR) error
	// AllocMW gives the window its key.
	AllocMW(*MW) error
	DeallocMW(*MW)
	OpenXRCD(*XRCD) error
	CloseXRCD(*XRCD)
}

// endHardware takes all objects of the context back.
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
