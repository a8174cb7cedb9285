// SPDX-License-Identifier: Apache-2.0

package netxtreme

import (
	"encoding/binary"
	"testing"
)

// FuzzDevice is a driver that stores to registers, executes commands and posts requests of any
// contents. Their numbers are small so that they refer to objects. The device must neither crash
// nor access memory that is not the driver's.
func FuzzDevice(f *testing.F) {
	f.Add([]byte{0, 0x10, 0, 1, 1, 0, 5, 8, 2, 2, 7, 1, 3, 9})
	f.Add([]byte{2, 2, 17, 0, 1, 3, 22, 9, 14, 1, 2, 250, 2, 13, 9, 16, 1, 1, 3, 1, 0})
	f.Add([]byte{1, 3, 4, 0x18, 3, 1, 15, 9, 0x10, 49, 3, 0, 5, 4, 40, 1})
	codes := []uint16{0x16, 0x17, 0x40, 0x42, 0x46, 0x50, 0x51, 0x70, 0x71, 0x90, 0x91, 0x93, 0xb0, 0xb1, 0x193}
	f.Fuzz(func(t *testing.T, program []byte) {
		fabric := New()
		c := newCard(t, newRig(t, fabric))
		a, b := c.qp(typeRC), newRig(t, fabric).qp(typeRC)
		connect(a, b)
		a.r.tolerant, b.r.tolerant = true, true
		next := func() (v byte) {
			if len(program) > 0 {
				v, program = program[0], program[1:]
			}
			return v
		}
		contents := func(n int) []byte {
			in := make([]byte, n)
			for range next() % 24 {
				at := int(next()) % n
				switch v := next(); v % 4 {
				case 0:
					copy(in[at:], binary.LittleEndian.AppendUint64(nil, memoryBase+uint64(v)<<8))
				default:
					in[at] = v >> 2
				}
			}
			return in
		}
		for len(program) > 0 {
			switch next() % 6 {
			case 0: // a store to any register
				off := uint64(next())<<8 | uint64(next())<<2
				v := uint64(next())<<28 | uint64(next())
				a.r.d.WriteRegion(0, off, le.AppendUint32(nil, uint32(v)))
			case 1: // a doorbell
				v := uint64(next())<<56 | uint64(next())<<32 | uint64(next())
				a.r.write(doorbellBAR, doorbellStart+uint64(next()%4)*pageSize, v, 8)
			case 2: // a command of HWRM
				code := codes[int(next())%len(codes)]
				in := contents(0x100)
				a.r.d.fabric.Lock()
				hwrmCommands[code].run(a.r.d, append(in, make([]byte, maxRequest)...), make([]byte, maxAnswer))
				a.r.d.fabric.Unlock()
			case 3: // a command of RCFW
				in := contents(0x90)
				in[0] = next() % 0x18
				a.r.d.fabric.Lock()
				if a.r.d.answers != nil {
					a.r.d.command(append(in, make([]byte, maxSlots*entrySize)...))
				}
				a.r.d.fabric.Unlock()
			case 4: // a request
				q := []*rigQP{a, b}[next()%2]
				w := contents(requestSize)
				w[0] = next() % 16
				if w[0] >= opWrite {
					le.PutUint32(w[24:], a.key)
				}
				le.PutUint32(w[2*slotSize+8:], q.key+uint32(next()%2))
				le.PutUint64(w[2*slotSize:], q.memory+uint64(next()))
				q.post(w, int(le.Uint32(w[8:])))
			case 5:
				b.postReceive(b.memory+uint64(next()), b.key, uint32(next()))
				a.postReceive(a.memory, a.key, uint32(next()))
			}
		}
	})
}
