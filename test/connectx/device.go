// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"time"

	"purerdma/test/connectx/prm"
)

// Config is what a device is made of.
type Config struct {
	// Name is what traces and violations call the device.
	Name string
	// Memory is the host's. It must be there.
	Memory Memory
	// MAC is the port's address. All zeros is one made of the device's number
	// on its fabric.
	MAC [6]byte
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

	pds   table[*pd]
	uars  table[*uar]
	eqs   table[*eq]
	cqs   table[*cq]
	mkeys table[*mkey]
	xrcds table[*xrcd]
	srqs  table[*srq]
	// queues are those that have a number in work requests: QPs, targets of DC,
	// send queues of Ethernet.
	queues table[queue]
	quotas
	gids   [GIDs]address
	owned  map[[16]byte]int // in how many places of the table an address is
	groups map[[16]byte][]*qp

	mapped   []*uar // pages that are memory
	portDown bool
	removed  bool
	failing  map[uint16]*failure // commands, by opcode
	born     time.Time

	dumpFillMemory

	mac       [6]byte
	needsBoot bool // commands are refused until the driver has started the device
	fw        firmware
	ethernet

	quirks

	scratch
}

// queue is what a doorbell can name.
type queue interface {
	// doorbell takes the first 8 bytes of a store to a doorbell register of a
	// page, and what of a BlueFlame copy came with them.
	doorbell(d *Device, u *uar, p []byte)
	// stop ends what would go on by itself.
	stop()
}

// scratch is what carrying out a request works with, kept so that it allocates
// nothing.
type scratch struct {
	wqe        [1024]byte
	request    request
	remote     [][]byte
	message    message
	target     target
	withHeader [][]byte
	short      [64]byte
	stored     [8]byte // to a register
	eqe        [prm.EQESize]byte
	steps      int // of the request, through pieces of memory
}

// New makes a device as it is after a reset, and connects it.
func New(cfg Config) *Device {
	d := &Device{cfg: cfg, fabric: cfg.Fabric, mem: cfg.Memory, mac: cfg.MAC, born: time.Now()}
	if d.fabric == nil {
		d.fabric = NewFabric()
	}
	d.fabric.join(d)
	d.Reset()
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
	d.quotas = newQuotas()
	d.resetFirmware()
	d.resetEthernet()
	d.pds = newTable[*pd]("PD", driverPD+1, driverPD+1+1<<logMaxPD)
	d.pds.objects[driverPD] = &pd{n: driverPD, users: 1} // the device's own
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

// interrupt raises a vector once the lock is released.
func (d *Device) interrupt(vector int) {
	if d.cfg.Interrupt != nil {
		d.fabric.interrupts = append(d.fabric.interrupts, interrupt{d, vector})
	}
}

// time is the device's clock, in microseconds, as prm.Cap.FrequencyKHz says.
func (d *Device) time() uint64 { return uint64(time.Since(d.born).Microseconds()) }
