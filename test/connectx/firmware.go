// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"slices"

	"purerdma/test/connectx/prm"
)

// firmware contains the device's state other than queues, keys and their parents.
type firmware struct {
	state        hcaState
	issi         uint64
	nicInterface uint8 // mode in which the driver uses the device
	health       uint8 // syndrome of a firmware failure

	pages map[uint64]bool // memory provided by the driver
	caps  map[prm.CapType][]byte
	vport vport
	port  port
}

// hcaState is the progress of the driver's start of the device.
type hcaState uint8

const (
	hcaDisabled hcaState = iota
	hcaEnabled
	hcaRunning
)

var hcaStateNames = [...]string{"disabled", "enabled", "running"}

func (s hcaState) String() string { return hcaStateNames[s] }

// resetFirmware implements the firmware's part of reset.
func (d *Device) resetFirmware() {
	d.fw = firmware{
		pages: make(map[uint64]bool),
		caps:  make(map[prm.CapType][]byte),
		vport: newVport(d.mac),
		port:  newPort(),
	}
	for t, c := range greatestCaps {
		d.fw.caps[t] = slices.Clone(c)
	}
	for t, fields := range offAtFirst {
		for _, f := range fields {
			f.Set(d.fw.caps[t], 0)
		}
	}
}

// frameObjects contains the objects for frames, except send queues, which are in the table of QPs.
type frameObjects struct {
	domains    table[*domain]
	tiss       table[*tis]
	tirs       table[*tir]
	rqts       table[*rqt]
	rqs        table[*rq]
	qCounters  table[*qCounter]
	flowTables table[*flowTable]
	root       *flowTable // entry point of received frames
}

// resetEthernet implements Ethernet's part of reset.
func (d *Device) resetEthernet() {
	d.domains = newTable[*domain]("transport domain", 1, 1+1<<logMaxTransportDomain)
	d.tiss = newTable[*tis]("TIS", 1, 1+1<<logMaxTIS)
	d.tirs = newTable[*tir]("TIR", 1, 1+1<<logMaxTIR)
	d.rqts = newTable[*rqt]("RQT", 1, 1+1<<logMaxRQT)
	d.rqs = newTable[*rq]("RQ", 1, 1+1<<logMaxRQ)
	d.qCounters = newTable[*qCounter]("Q counter", 1, 1<<8)
	d.flowTables = newTable[*flowTable]("flow table", 1, 1+1<<logMaxFlowTables)
	d.root = nil
}

// early lists the commands that a driver may issue before INIT_HCA.
var early = map[uint16]hcaState{
	prm.OpEnableHCA: hcaDisabled, prm.OpQueryISSI: hcaDisabled, prm.OpSetISSI: hcaDisabled,
	prm.OpDisableHCA: hcaEnabled, prm.OpQueryPages: hcaEnabled, prm.OpManagePages: hcaDisabled,
	prm.OpQueryHCACap: hcaEnabled, prm.OpSetHCACap: hcaEnabled, prm.OpQueryAdapter: hcaEnabled,
	prm.OpAccessReg: hcaEnabled, prm.OpInitHCA: hcaEnabled, prm.OpTeardownHCA: hcaEnabled,
}

// booted rejects commands that a driver must not issue before it has started the device.
func (d *Device) booted(opcode uint16) error {
	if d.fw.health != 0 {
		return refuse(prm.StatusInternal, "the firmware has failed")
	}
	need, ok := early[opcode]
	if !ok {
		need = hcaRunning
	}
	if d.needsBoot && d.fw.state < need {
		return refuse(prm.StatusBadSysState, "%s: the device is %v", CommandName(opcode), d.fw.state)
	}
	return nil
}

// subscribed reports whether an event queue receives events of a type.
func (d *Device) subscribed(typ prm.EventType) bool {
	for _, e := range d.eqs.objects {
		if e.events[typ/64]>>(typ%64)&1 != 0 {
			return true
		}
	}
	return false
}
