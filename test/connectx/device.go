// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"time"

	"purerdma/test/connectx/prm"
)

// Config is the configuration of a device.
type Config struct {
	// Name is the device's name in traces and violations.
	Name string
	// Memory is the host's memory. It must not be nil.
	Memory Memory
	// MAC is the port's address. If it is zero, the device derives an address from its number
	// on its fabric.
	MAC [6]byte
	// Fabric is the port's fabric. If it is nil, the device creates its own.
	Fabric *Fabric
	// Interrupt, if not nil, is called for each interrupt. It may use the device. Calls may be
	// concurrent.
	Interrupt func(vector int)
	// Violation, if not nil, makes the device strict. It is called for an operation that a
	// driver must not do, even if a card may tolerate it. The device's lock is held, so it must
	// not use the device.
	Violation func(Violation)
	// Trace, if not nil, is called for every operation, see [Record]. The device's lock is
	// held, so it must not use the device.
	Trace func(Record)
}

// Device is one HCA with one port. Its methods may be called concurrently.
type Device struct {
	cfg    Config
	fabric *Fabric
	mem    Memory

	pds   table[*pd]
	uars  table[*uar]
	eqs   table[*eq]
	cqs   table[*cq]
	mkeys table[*mkey]
	xrcds table[*xrcd]
	srqs  table[*srq]
	// queues contains the objects that have a number in work requests. They are QPs, targets of
	// DC, and send queues of Ethernet.
	queues table[queue]
	quotas
	gids   [GIDs]address
	owned  map[[16]byte]int // number of table entries by address
	groups map[[16]byte][]*qp

	mapped   []*uar // register pages that are memory
	portDown bool
	removed  bool
	removing bool                // see SetRemoving
	failing  map[uint16]*failure // failing commands by opcode
	born     time.Time

	dumpFillMemory

	mac       [6]byte
	needsBoot bool // whether to reject commands until the driver has started the device
	fw        firmware
	frameObjects

	quirks
	defects

	scratch
}

// queue is an object that a doorbell can refer to.
type queue interface {
	// doorbell handles a store to a doorbell register of a page. p contains its first 8 bytes,
	// or a BlueFlame copy.
	doorbell(d *Device, u *uar, p []byte)
	// stop stops timers and other activity.
	stop()
}

// scratch contains buffers for the execution of a request, so that it does not allocate.
type scratch struct {
	wqe        [1024]byte
	request    request
	remote     [][]byte
	message    message
	target     target
	withHeader [][]byte
	short      [64]byte
	stored     [8]byte // last store to a register
	eqe        [prm.EQESize]byte
	steps      int // pieces of memory that the request has used
}

// New creates a device in its state after a reset, and connects it.
func New(cfg Config) *Device {
	d := &Device{cfg: cfg, fabric: cfg.Fabric, mem: cfg.Memory, mac: cfg.MAC, born: time.Now()}
	if d.fabric == nil {
		d.fabric = NewFabric()
	}
	d.fabric.join(d)
	d.Reset()
	return d
}

// Reset resets the device like a function-level reset.
func (d *Device) Reset() {
	d.fabric.lock()
	defer d.fabric.unlock()
	d.reset()
}

// reset clears all tables. The fabric's lock is held, as in all other methods.
func (d *Device) reset() {
	d.quotas = newQuotas()
	d.resetFirmware()
	d.resetEthernet()
	d.pds = newTable[*pd]("PD", driverPD+1, driverPD+1+1<<logMaxPD)
	d.pds.objects[driverPD] = &pd{n: driverPD, users: 1} // the device's own PD
	for _, u := range d.uars.objects {
		u.stop()
	}
	d.uars = newTable[*uar]("UAR", firstUAR, endUAR)
	d.eqs = newTable[*eq]("EQ", 1, maxEQ+1)
	for _, q := range d.cqs.objects {
		q.held = nil
	}
	d.cqs = newTable[*cq]("CQ", 1, 1+1<<logMaxCQ)
	d.mkeys = newTable[*mkey]("memory key", firstMkey, firstMkey+1<<logMaxMkey)
	d.xrcds = newTable[*xrcd]("XRC domain", 1, 1+1<<logMaxXRCD)
	d.srqs = newTable[*srq]("SRQ", 1, 1+1<<logMaxSRQ)
	for _, q := range d.queues.objects {
		q.stop()
	}
	d.queues = newTable[queue]("QP", firstQP, firstQP+1<<logMaxQP)
	d.mapped = nil
	d.quirks = quirks{Quirks: d.quirks.Quirks}
	d.gids = [GIDs]address{}
	d.owned = make(map[[16]byte]int)
	d.groups = make(map[[16]byte][]*qp)
}

// interrupt raises a vector after the lock is released.
func (d *Device) interrupt(vector int) {
	if d.cfg.Interrupt != nil {
		d.fabric.interrupts = append(d.fabric.interrupts, interrupt{d, vector})
	}
}

// time returns the device's clock in microseconds, according to prm.Cap.FrequencyKHz.
func (d *Device) time() uint64 { return uint64(time.Since(d.born).Microseconds()) }
