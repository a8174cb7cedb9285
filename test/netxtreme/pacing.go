// SPDX-License-Identifier: Apache-2.0

package netxtreme

// Doorbells of a card wait in a FIFO. Drivers and programs read its free entries, and slow down if it
// fills up. The FIFO of the model is empty, except for a fault.

// fifoRegister is the address of the register with the free entries, behind another bus.
const fifoRegister = 0x0300_1470

// fifoWindow is the offset in BAR 0 of the window for the register. fifoMap is the register with the
// address of the window.
const (
	fifoWindow = 0x2000
	fifoMap    = regWindows + 4
	windowSize = 0x1000
)

// Field of the register with the free entries.
const (
	fifoRoomMask  = 0xffff_0000
	fifoRoomShift = 16
)

// fifoDepth returns the number of entries of the FIFO. The driver has the same number.
func (d *Device) fifoDepth() uint32 {
	if d.p7() {
		return 0x8000
	}
	return 0x2c00
}

func pacingQcfg(d *Device, _, out []byte) error {
	const otherBus = 1
	le.PutUint32(out[0x10:], fifoRegister|otherBus)
	le.PutUint32(out[0x1c:], fifoRoomMask)
	out[0x20] = fifoRoomShift
	le.PutUint32(out[0x2c:], d.fifoDepth())
	return nil
}

// readWindow returns a register of the window at an offset in BAR 0. Other registers behind the other
// bus are zero.
func (d *Device) readWindow(off uint32) uint32 {
	if (d.window | (off - fifoWindow)) != fifoRegister {
		return 0
	}
	return (d.fifoDepth() - d.waiting) << fifoRoomShift & fifoRoomMask
}
