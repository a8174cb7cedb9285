// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"slices"
	"testing"

	"purerdma/test/connectx/prm"
	"purerdma/test/pci"
)

// FuzzFunction is a driver that stores to registers and issues commands of any contents. Their
// numbers are small so that they refer to objects. The device must neither crash nor access
// memory that is not the driver's.
func FuzzFunction(f *testing.F) {
	ops := make([]uint16, 0, len(commands))
	for op := range commands {
		ops = append(ops, op)
	}
	slices.Sort(ops)
	f.Add([]byte{0, 1, 2, 3})
	for i := range ops {
		f.Add([]byte{1, byte(i), 40, 0, 0, 1, 0, 0, 0, 1, byte(i), 200, 1, 2, 3, 4})
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		r := &busRig{rig: &rig{t: t, mem: &hostMemory{memoryBase, make([]byte, 1<<20)}}}
		r.d = New(Config{Name: "hca", Memory: r.mem, Violation: func(Violation) {}, Interrupt: func(int) {}})
		r.f = NewFunction(r.d)
		r.cmdq = r.alloc(PageSize)
		r.write32(0x10, uint32(r.cmdq>>32))
		r.write32(0x14, uint32(r.cmdq))
		r.boot()
		start := r.used
		next := func() byte {
			if len(in) == 0 {
				return 0
			}
			b := in[0]
			in = in[1:]
			return b
		}
		for steps := 0; len(in) > 0 && steps < 64; steps++ {
			r.used = start // reuse the memory with its contents
			switch next() % 3 {
			case 0: // a store to any register
				off := uint64(next())<<16 | uint64(next())<<8 | uint64(next())
				p := make([]byte, 1<<(next()%7))
				for i := range p {
					p[i] = next()
				}
				r.f.WriteRegion([]int{0, 0, 0, pci.ConfigRegion}[next()%4], off, p)
			case 1: // a command with sparse contents
				b := opcode(ops[int(next())%len(ops)], 16+16*int(next()))
				prm.HeaderIn.OpMod.Set(b, uint64(next()%4))
				for n := next() % 32; n > 0; n-- {
					b[8+int(next())%(len(b)-8)] = next()
				}
				e := r.entry(0, b, 16*int(next()))
				if next()%8 == 0 {
					e[next()%64] = next()
				}
				r.write32(0x18, 1)
			case 2: // a doorbell of a queue with a small number
				p := make([]byte, 8)
				p[6], p[7] = next(), next()
				p[2] = next()
				r.f.WriteRegion(0, uint64(firstUAR+next()%4)*PageSize+[]uint64{0x20, 0x40, 0x800, 0x900}[next()%4], p)
			}
		}
		r.d.Reset()
	})
}
