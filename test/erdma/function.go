// SPDX-License-Identifier: Apache-2.0

package erdma

import (
	"fmt"

	"purerdma/test/pci"
)

// RegionSize implements pci.Function.
func (d *Device) RegionSize(index int) uint64 {
	switch {
	case index == pci.ConfigRegion:
		return pci.ConfigSize
	case index >= 0 && index < len(identity.BARs):
		return identity.BARs[index]
	}
	return 0
}

// ReadRegion implements pci.Function. Doorbells read as zeros.
func (d *Device) ReadRegion(index int, offset uint64, p []byte) {
	d.fabric.Lock()
	defer d.fabric.Unlock()
	clear(p)
	switch {
	case index == pci.ConfigRegion:
		d.config.Read(offset, p)
	case index == 0 && offset < uint64(len(d.regs)):
		copy(p, d.regs[offset:])
	}
}

// WriteRegion implements pci.Function.
func (d *Device) WriteRegion(index int, offset uint64, p []byte) {
	d.fabric.Lock()
	defer d.fabric.Unlock()
	switch {
	case index == pci.ConfigRegion:
		d.config.Write(offset, p)
	case index == 0 && offset < pageSize:
		d.writeRegister(int(offset), p)
	case index == 0 && offset < barSize:
		d.ring(uint32(offset), p)
	default:
		d.violation(fmt.Sprintf("BAR %d", index), "a store of %d bytes to %#x, where no register is", len(p), offset)
	}
}

// resetRegisters sets the registers to their values after a reset.
func (d *Device) resetRegisters() {
	clear(d.regs[:])
	le.PutUint32(d.regs[regVersion:], version)
	le.PutUint32(d.regs[regGroups:], 24)
	m := d.o.MAC
	le.PutUint32(d.regs[regMACLow:], be.Uint32(m[2:]))
	le.PutUint32(d.regs[regMACHigh:], uint32(be.Uint16(m[:])))
}

// address returns the address in a pair of registers.
func (d *Device) address(low, high int) uint64 {
	return uint64(le.Uint32(d.regs[low:])) | uint64(le.Uint32(d.regs[high:]))<<32
}

// writeRegister handles a store to the first page.
func (d *Device) writeRegister(off int, p []byte) {
	if off%4 != 0 || len(p) != 4 && len(p) != 8 {
		d.violation("registers", "a store of %d bytes to %#x", len(p), off)
		return
	}
	var b [8]byte
	copy(b[:], p)
	v := le.Uint64(b[:])
	switch {
	case d.wasReset() && (off == regAEQ || off == regCEQ || off == regCmdCQ):
		// The handler of vector 0 may still run on another processor, because the driver calls free_irq later.
		d.trace("doorbell %#x after the reset: %#x", off, v)
	case off == regControl:
		d.control(uint32(v))
	case off == regAEQ:
		d.ringEQ(d.aeq, "AEQ", v)
	case off >= regCEQ && off < regCEQ+8*vectors && off%8 == 0:
		n := uint32(off-regCEQ) / 8
		if n == 0 && d.cmdq != nil {
			d.ringEQ(d.cmdq.eq, "EQ of the command queue", v)
		} else {
			d.ringEQ(d.eqs[n], fmt.Sprintf("EQ %d", n), v)
		}
	case off == regCmdSQ && d.cmdq != nil:
		d.cmdq.ring(uint16(v))
	case off == regCmdCQ && d.cmdq != nil:
		d.cmdq.cq.ring(v)
	case off >= regCmdSQAddrL && off < regGroups || off >= regRecords && off < regRecords+4*dbRecordSize:
		copy(d.regs[off:], p)
	default:
		d.violation("registers", "a store of %#x to %#x", v, off)
	}
}

// control handles a store to the control register.
func (d *Device) control(v uint32) {
	d.trace("control %#x", v)
	switch v {
	case bitReset:
		d.reset()
		le.PutUint32(d.regs[regStatus:], bitReset)
	case bitInit:
		if err := d.initialize(); err != nil {
			d.violation("registers", "initialization: %v", err)
			return
		}
		le.PutUint32(d.regs[regStatus:], bitInit)
	default:
		d.violation("registers", "a store of %#x to the control register", v)
	}
}

// wasReset reports whether the driver has reset the device and has not initialized it since.
func (d *Device) wasReset() bool { return le.Uint32(d.regs[regStatus:]) == bitReset }

// initialize creates the queues whose addresses are in registers.
func (d *Device) initialize() error {
	q, err := newCmdq(d)
	if err != nil {
		return err
	}
	aeq, err := newEQ(d, d.address(regAEQAddrL, regAEQAddrH), uint64(le.Uint32(d.regs[regAEQDepth:])), 0)
	if err != nil {
		return fmt.Errorf("AEQ: %w", err)
	}
	d.cmdq, d.aeq = q, aeq
	return nil
}
