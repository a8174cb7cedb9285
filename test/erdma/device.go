// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"fmt"

	"purerdma/test/pci"
)

// Limits that the device reports, or that the driver has. They bound the memory that a driver can
// make the model use.
const (
	queueBlocks  = 16 // the device has 1024 QPs for each
	maxQP        = queueBlocks << 10
	maxCQ        = 2 * maxQP
	maxMR        = 2 * maxQP
	logMaxCQE    = 20
	logMaxRecv   = 13
	logMaxBlocks = 15 // of a send queue
	logMaxMR     = 36 // bytes of a memory region
	maxPages     = 1 << 24
	maxEQ        = vectors
	logMaxEQ     = 15

	// localKey is the key of all memory, for the host's kernel.
	localKey = 0xffff_ff00

	version = 1
	// firmwareVersion distinguishes the model from an adapter ("PR"). cmd/internal/hwcheck reads it.
	firmwareVersion = 0x5052_0001
)

// vectors is the number of MSI-X vectors. Vector 0 is for commands and asynchronous events.
const vectors = 32

// identity is the identity of an eRDMA adapter. BAR 2 contains only the vectors.
var identity = pci.Identity{
	Vendor: 0x1ded, Device: 0x107f, Subsystem: 0x107f, Class: pci.ClassEthernet,
	BARs:    [6]uint64{0: barSize, 2: 16 << 10},
	Vectors: vectors, VectorBAR: 2, VectorTable: 0, VectorPendingArray: 0x1000,
}

// Device is one eRDMA adapter. It implements pci.Function. Its methods may be called
// concurrently.
type Device struct {
	o      pci.Options
	fabric *Fabric
	mem    pci.Memory

	config *pci.ConfigSpace
	regs   [pageSize]byte

	cmdq *cmdq // nil until the driver has initialized the device
	aeq  *eq
	eqs  map[uint32]*eq // event queues of completions by number
	cqs  map[uint32]*cq
	qps  map[uint32]*qp
	mrs  map[uint32]*mr
	dbs  map[uint32]bool // pages of extended doorbells in use

	silent bool // a fault, see faults
}

// Reset implements pci.Function.
func (d *Device) Reset() {
	d.fabric.Lock()
	defer d.fabric.Unlock()
	d.config = pci.NewConfigSpace(identity)
	d.reset()
}

// reset clears the registers and all objects. The fabric's lock is held, as in all other
// methods.
func (d *Device) reset() {
	for _, q := range d.qps {
		q.disconnect()
	}
	d.cmdq, d.aeq = nil, nil
	d.eqs, d.cqs = make(map[uint32]*eq), make(map[uint32]*cq)
	d.qps, d.mrs = make(map[uint32]*qp), make(map[uint32]*mr)
	d.dbs = make(map[uint32]bool)
	d.resetRegisters()
}

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
