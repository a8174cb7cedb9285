// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"
	"time"

	"purerdma/test/connectx/prm"
)

// initSegmentSize is the size of the initialization segment in BAR 0.
const initSegmentSize = 0x2000

// Firmware version 16.35.4030 of a ConnectX-5.
const (
	fwMajor         = 16
	fwMinor         = 35
	fwSubminor      = 4030
	cmdInterfaceRev = 5
	hardwareID      = 0x20d
)

// initSegment returns the current contents of the segment.
func (f *Function) initSegment() *[initSegmentSize]byte {
	var b [initSegmentSize]byte
	s, fw := &prm.InitSegment, &f.d.fw
	s.FWRevMajor.Set(b[:], fwMajor)
	s.FWRevMinor.Set(b[:], fwMinor)
	s.FWRevSubminor.Set(b[:], fwSubminor)
	s.CmdInterfaceRev.Set(b[:], cmdInterfaceRev)
	s.CmdQAddrHigh.Set(b[:], f.cmdq.addr>>32)
	s.CmdQAddrLow.Set(b[:], f.cmdq.addr>>12)
	s.NICInterface.Set(b[:], uint64(fw.nicInterface))
	s.LogCmdQSize.Set(b[:], logCommands)
	s.LogCmdQStride.Set(b[:], logCommandStride)
	s.HealthFWVersion.Set(b[:], fwMajor<<24|fwMinor<<16|fwSubminor)
	s.HealthHWID.Set(b[:], hardwareID)
	s.ResetSupported.Set(b[:], 1)
	if fw.health != 0 {
		s.HealthRFR.Set(b[:], 1)
		s.HealthSyndrome.Set(b[:], uint64(fw.health))
	}
	up := time.Since(f.d.born)
	s.InternalTimer.Set(b[:], f.d.time())
	if fw.health == 0 {
		// A driver expects a different value at its next read.
		s.HealthCounter.Set(b[:], uint64(up.Milliseconds()))
	}
	return &b
}

// writeInitSegment handles a store of 4 bytes to one of the segment's few registers.
func (f *Function) writeInitSegment(off int, p []byte) {
	if off%4 != 0 || len(p) != 4 {
		f.d.violation("initialization segment", "a store of %d bytes to %#x", len(p), off)
		return
	}
	var b [initSegmentSize]byte
	copy(b[off:], p)
	s := &prm.InitSegment
	switch off {
	case 0x10:
		f.cmdq.addr = f.cmdq.addr&0xffff_ffff | s.CmdQAddrHigh.Get(b[:])<<32
	case 0x14:
		f.cmdq.addr = f.cmdq.addr>>32<<32 | s.CmdQAddrLow.Get(b[:])<<12
		f.setNICInterface(uint8(s.NICInterface.Get(b[:])))
	case 0x18:
		f.doorbell(binary.BigEndian.Uint32(p))
	case 0x100c: // clears a bus interrupt, which the function does not have
	default:
		f.d.violation("initialization segment", "a store of %x to %#x", p, off)
	}
}

// setNICInterface changes the driver's use of the device. A disabled device is in its state
// after a reset, except for the segment. After a reset by the driver it is healthy and
// disabled.
func (f *Function) setNICInterface(mode uint8) {
	if mode == prm.NICInterfaceSWReset {
		f.d.reset()
		f.d.fw.nicInterface = prm.NICInterfaceDisabled
		return
	}
	if mode != prm.NICInterfaceFull && mode != f.d.fw.nicInterface {
		health := f.d.fw.health
		f.d.reset()
		f.d.fw.health = health
	}
	f.d.fw.nicInterface = mode
}
