// SPDX-License-Identifier: Apache-2.0

package erdma

import "testing"

// FuzzDevice is a driver that stores to registers, executes commands and posts requests of any
// contents. Their numbers are small so that they refer to objects. The device must neither crash
// nor access memory that is not the driver's.
func FuzzDevice(f *testing.F) {
	f.Add([]byte{0, 0x10, 0, 1, 1, 0, 5, 8, 2, 2, 7, 1, 3, 9})
	f.Add([]byte{2, 2, 17, 0, 1, 3, 22, 9, 14, 1, 2, 250, 2, 13, 9, 16, 1, 1, 3, 1, 0})
	f.Fuzz(func(t *testing.T, program []byte) {
		a, b := newPair(t)
		a.r.tolerant, b.r.tolerant = true, true
		m, to := a.r.reg(allRights), b.r.reg(allRights)
		next := func() (v byte) {
			if len(program) > 0 {
				v, program = program[0], program[1:]
			}
			return v
		}
		for len(program) > 0 {
			switch next() % 4 {
			case 0: // a store to any register
				off := uint64(next())<<12 | uint64(next())<<3
				v := uint64(next())<<32 | uint64(next())
				a.r.d.WriteRegion(int(next()%3), off, le.AppendUint64(nil, v)[:4<<(next()%2)])
			case 1: // a command
				op := opcode{next() % 2, next() % 12}
				in := make([]byte, maxCommand)
				for range next() % 32 {
					in[next()%maxCommand] = next()
				}
				if a.r.d.cmdq != nil {
					a.r.d.execute(op, in)
				}
			case 2: // a request
				q, remote := a, to
				if next()%2 == 0 {
					q, remote = b, m
				}
				w := wqe{next() % 32, uint64(next()) << 22, int(next() % 10), body(uint32(next()), uint32(next()), remote.key, uint32(remote.addr), 0, 0)}
				for range next() % 7 {
					w.body = append(w.body, region{m.key + uint32(next()%2), m.addr}.sge(uint64(next())<<5, uint32(next()))...)
				}
				if len(w.body) <= maxCommand-8 {
					q.post(w)
				}
			case 3:
				b.recv(to, uint64(next()), uint32(next()))
				a.recv(m, uint64(next()), uint32(next()))
			}
		}
	})
}
