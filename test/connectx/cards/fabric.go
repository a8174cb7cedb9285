// SPDX-License-Identifier: Apache-2.0

// Package cards puts software ConnectX cards into the virtual machines of rdmavm. A program in
// a virtual machine can inject faults into them (go doc cmd/rdmavm).
package cards

import (
	"purerdma/test/connectx"
	"purerdma/test/pci"
)

// Fabric implements pci.Fabric with ConnectX cards.
type Fabric struct {
	*connectx.Fabric
	devices map[string]*connectx.Device
	rules   map[string]*rule // rules by sending device, guarded by the fabric's lock.
	silent  map[string]bool  // devices whose messages and answers are lost, guarded by the fabric's lock
}

// New creates a fabric without cards.
func New() pci.Fabric {
	return &Fabric{
		Fabric:  connectx.NewFabric(),
		devices: make(map[string]*connectx.Device), rules: make(map[string]*rule), silent: make(map[string]bool),
	}
}

// Vectors implements pci.Fabric.
func (f *Fabric) Vectors() int { return connectx.Vectors }

// Connect implements pci.Fabric. It must not be called concurrently, or during a call of Fault.
func (f *Fabric) Connect(o pci.Options) pci.Function {
	cfg := connectx.Config{
		Name: o.Name, MAC: o.MAC, Memory: o.Memory, Fabric: f.Fabric, Interrupt: o.Interrupt, Violation: o.Violation,
	}
	if o.Trace != nil {
		cfg.Trace = func(r connectx.Record) { o.Trace(r) }
	}
	d := connectx.New(cfg)
	f.devices[o.Name] = d
	return connectx.NewFunction(d)
}
