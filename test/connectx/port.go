// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"

	"purerdma/test/connectx/prm"
)

// port contains the port's registers.
type port struct {
	admin    uint64 // state requested by the driver
	mtu      uint64
	nodeDesc []byte
	frames   portCounters
}

// maxMTU is the maximum MTU of the port, including the Ethernet header.
const maxMTU = 10000

func newPort() port {
	return port{admin: prm.PAOSUp, mtu: maxMTU, nodeDesc: make([]byte, 64)}
}

// portUp reports whether the port can send and receive.
func (d *Device) portUp() bool {
	return !d.portDown && !d.removed && d.fw.health == 0 && d.fw.port.admin == prm.PAOSUp
}

// changePort executes a change. It notifies the driver if the port has gone up or down.
func (d *Device) changePort(change func()) {
	was := d.portUp()
	change()
	is := d.portUp()
	if was == is {
		return
	}
	state := uint8(prm.PortDown)
	if is {
		state = prm.PortActive
	}
	d.event(prm.EventPortChange, state, func(data []byte) { prm.EventPort.Set(data, 1) })
}

var registerCommands = map[uint16]command{
	prm.OpAccessReg: {"ACCESS_REG", 16, 16, accessRegister},
}

// register is a register of ACCESS_REG. Either function may be nil, and the driver can then
// only use the other operation.
type register struct {
	name  string
	size  int
	read  func(d *Device, b []byte)
	write func(d *Device, b []byte) error
}

var registers = map[uint64]register{
	prm.RegPMTU: {"PMTU", 0x10, func(d *Device, b []byte) {
		prm.PMTU.Max.Set(b, maxMTU)
		prm.PMTU.Admin.Set(b, d.fw.port.mtu)
		prm.PMTU.Oper.Set(b, d.fw.port.mtu)
	}, func(d *Device, b []byte) error {
		mtu := prm.PMTU.Admin.Get(b)
		if mtu > maxMTU {
			return refuse(prm.StatusBadParam, "PMTU: %d is more than %d", mtu, maxMTU)
		}
		d.fw.port.mtu = mtu
		return nil
	}},
	prm.RegPTYS: {"PTYS", 0x40, func(d *Device, b []byte) {
		prm.PTYS.EthCapability.Set(b, prm.PTYS100GCR4)
		prm.PTYS.EthAdmin.Set(b, prm.PTYS100GCR4)
		if d.portUp() {
			prm.PTYS.EthOper.Set(b, prm.PTYS100GCR4)
		}
	}, nil},
	prm.RegPAOS: {"PAOS", 0x10, func(d *Device, b []byte) {
		prm.PAOS.Admin.Set(b, d.fw.port.admin)
		prm.PAOS.Oper.Set(b, prm.PAOSDown)
		if d.portUp() {
			prm.PAOS.Oper.Set(b, prm.PAOSUp)
		}
	}, func(d *Device, b []byte) error {
		admin := prm.PAOS.Admin.Get(b)
		if admin != prm.PAOSUp && admin != prm.PAOSDown {
			return refuse(prm.StatusBadParam, "PAOS: there is no state %d", admin)
		}
		d.changePort(func() { d.fw.port.admin = admin })
		return nil
	}},
	prm.RegPPCNT: {"PPCNT", 0x100, func(d *Device, b []byte) { d.fw.port.frames.put(b) }, nil},
	prm.RegNodeDesc: {"NODE_DESC", 0x40, func(d *Device, b []byte) { copy(b, d.fw.port.nodeDesc) }, func(d *Device, b []byte) error {
		d.fw.port.nodeDesc = bytes.Clone(b)
		return nil
	}},
	prm.RegHostEndianness: {"HOST_ENDIANNESS", 0x10, nil, func(*Device, []byte) error { return nil }},
}

// accessRegister reads or writes a register. The answer contains the driver's input, and the
// contents of a register that was read.
func accessRegister(d *Device, in, out []byte) error {
	id, mod := prm.AccessRegister.ID.Get(in), prm.AccessRegister.OpMod.Get(in)
	r, ok := registers[id]
	data, answer := prm.AccessRegister.Data.Of(in), prm.AccessRegister.Data.Of(out)
	switch {
	case !ok:
		return refuse(prm.StatusBadParam, "ACCESS_REG: there is no register %#x", id)
	case len(data) < r.size || len(answer) < r.size:
		return refuse(prm.StatusBadInputLength, "ACCESS_REG: %s has %d bytes, not %d", r.name, r.size, min(len(data), len(answer)))
	case id>>8 == prm.RegPMTU>>8 && prm.LocalPort.Get(data) != 1:
		return refuse(prm.StatusBadParam, "ACCESS_REG: %s: there is no port %d", r.name, prm.LocalPort.Get(data))
	}
	data, answer = data[:r.size], answer[:r.size]
	copy(answer, data)
	switch {
	case mod == prm.RegisterRead && r.read != nil:
		r.read(d, answer)
		return nil
	case mod == prm.RegisterWrite && r.write != nil:
		return r.write(d, data)
	}
	return refuse(prm.StatusBadParam, "ACCESS_REG: %s: no operation %d", r.name, mod)
}
