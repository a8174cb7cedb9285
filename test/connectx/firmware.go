// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"slices"

	"purerdma/test/connectx/prm"
)

// firmware is what the device has besides queues, keys and what those belong to.
type firmware struct {
	state        hcaState
	issi         uint64
	nicInterface uint8 // what of the device the driver uses
	health       uint8 // a syndrome: the firmware has failed

	pages map[uint64]bool // memory that the driver has lent
	caps  map[prm.CapType][]byte
	vport vport
	port  port
}

// hcaState is how far the driver has started the device.
type hcaState uint8

const (
	hcaDisabled hcaState = iota
	hcaEnabled
	hcaRunning
)

var hcaStateNames = [...]string{"disabled", "enabled", "running"}

func (s hcaState) String() string { return hcaStateNames[s] }

// resetFirmware is the firmware's part of reset.
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

// ethernet is what the device has for frames. Send queues are among the QPs.
type ethernet struct {
	domains    table[*domain]
	tiss       table[*tis]
	tirs       table[*tir]
	rqts       table[*rqt]
	rqs        table[*rq]
	qCounters  table[*qCounter]
	flowTables table[*flowTable]
	root       *flowTable // where frames from the wire come to
}

// resetEthernet is Ethernet's part of reset.
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

// early are the commands that a driver may give before INIT_HCA.
var early = map[uint16]hcaState{
	prm.OpEnableHCA: hcaDisabled, prm.OpQueryISSI: hcaDisabled, prm.OpSetISSI: hcaDisabled,
	prm.OpDisableHCA: hcaEnabled, prm.OpQueryPages: hcaEnabled, prm.OpManagePages: hcaDisabled,
	prm.OpQueryHCACap: hcaEnabled, prm.OpSetHCACap: hcaEnabled, prm.OpQueryAdapter: hcaEnabled,
	prm.OpAccessReg: hcaEnabled, prm.OpInitHCA: hcaEnabled, prm.OpTeardownHCA: hcaEnabled,
}

// booted refuses what a driver may not do before it has started the device.
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

// subscribed says whether an event queue gets events of that type.
func (d *Device) subscribed(typ prm.EventType) bool {
	for _, e := range d.eqs.objects {
		if e.events[typ/64]>>(typ%64)&1 != 0 {
			return true
		}
	}
	return false
}
