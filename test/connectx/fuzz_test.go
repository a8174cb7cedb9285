// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"
	"encoding/binary"
	"testing"

	"purerdma/test/connectx/prm"
)

// script is the input of a hostile driver. The first byte selects the service of its QPs, and
// its highest bit all quirks for the devices. Steps follow. Each step has a byte for its kind,
// two bytes for the length of the rest, and the rest.
type script []byte

// fuzzed lists the services.
var fuzzed = []uint64{prm.ServiceRC, prm.ServiceUC, prm.ServiceUD}

const (
	doCommand = iota // the rest is the command.
	doStore          // an offset in memory, 3 bytes, and the data.
	doRing           // page, offset of 2 bytes, and 8 bytes or more of data.
	doPost           // a request of one QP, with a doorbell and a valid index, number and length.
	doPostRaw        // doPost without correction of these fields.
	doReceive        // a receive of the other QP, or without a rest, the delayed operations of a device with quirks
	steps
)

func (s script) step(what byte, rest ...byte) script {
	s = append(s, what, byte(len(rest)>>8), byte(len(rest)))
	return append(s, rest...)
}

// next removes the first step.
func (s *script) next() (what byte, rest []byte, ok bool) {
	b := *s
	if len(b) < 3 {
		return 0, nil, false
	}
	n := min(int(binary.BigEndian.Uint16(b[1:])), len(b)-3)
	*s = b[3+n:]
	return b[0] % steps, b[3 : 3+n], true
}

// seeds adds the rig's own commands, and requests of all kinds.
func seeds(f *testing.F) {
	var commands [][]byte
	t := new(testing.T)
	r := newHostTraced(t, func(rec Record) {
		if c, ok := rec.(*CommandRecord); ok {
			commands = append(commands, append([]byte(nil), c.In...))
		}
	})
	cq := r.cq(3, nil)
	s := r.srq()
	q := r.qp(prm.ServiceRC, cq, cq, func(c []byte) { prm.QPC.SRQN.Set(c, uint64(s.n)) })
	q.connect(q.n, r.gid, nil)
	r.emptyKey(prm.AccessKLM, 4, nil)
	for _, op := range []uint16{prm.OpQueryQP, prm.OpQueryCQ, prm.OpQueryMkey, prm.OpDestroyQP, prm.OpDestroyCQ, prm.OpDestroyMkey, prm.Op2Err, prm.Op2Rst} {
		r.on(op, 0x40)
	}
	for _, c := range commands {
		f.Add([]byte(script{0}.step(doCommand, c...)))
	}
	key := byte(0x5a)
	for _, w := range []*wqe{
		request1(prm.WQESend, signaled, 0).inline([]byte("fuzz")),
		request1(prm.WQEWrite, signaled, 0).remote(memoryBase+0x8000, 0x100000|uint32(key)).data(8, 0x100000|uint32(key), memoryBase),
		request1(prm.WQERead, signaled, 0).remote(memoryBase, 0x100000|uint32(key)).data(8, 0x100000|uint32(key), memoryBase+0x8000),
		request1(prm.WQEFetchAdd, signaled, 0).remote(memoryBase, 0x100000|uint32(key)).atomic(1, 2).data(8, 0x100000|uint32(key), memoryBase),
		umrWQE(0x100000|uint32(key), func(ctrl, c []byte) { prm.UMRCtrl.Mask.Set(ctrl, ^uint64(prm.MaskPD)) }, make([]byte, 64)),
	} {
		for service := range fuzzed {
			f.Add([]byte(script{byte(service)}.step(doReceive, make([]byte, 64)...).step(doPost, w.b...).step(doPostRaw, w.b...)))
		}
	}
	f.Add([]byte(script{0x80}.step(doReceive, make([]byte, 64)...).step(doPost, request1(prm.WQESend, signaled, 0).inline([]byte("fuzz")).b...).
		step(doCommand, opcode(prm.OpDestroyQP, 16)...).step(doReceive)))
	av := request1(prm.WQESend, signaled, 0).av(r.gid, 0x40, 0x11).data(8, 0x100000|uint32(key), memoryBase)
	f.Add([]byte(script{2}.step(doReceive, make([]byte, 64)...).step(doPost, av.b...)))
	f.Add([]byte(script{0}.step(doRing, 8, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 1).step(doRing, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0x40, 1).step(doStore, 0, 0, 1, 1, 2, 3)))
}

// newHostTraced returns a host with the test's own trace.
func newHostTraced(t *testing.T, trace func(Record)) *host {
	h := &host{rig: newRigOn(t, nil)}
	h.d.cfg.Trace = trace
	h.begin(1)
	return h
}

// FuzzDevice runs a hostile driver on two devices. They must neither crash nor hang, nor access
// memory outside of theirs. The rig's memory ensures the last point, because no other memory
// exists.
func FuzzDevice(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 {
			return
		}
		p := newPair(t, fuzzed[int(data[0])%len(fuzzed)], nil)
		p.a.tolerant, p.b.tolerant = true, true
		for _, h := range []*host{p.a, p.b} {
			h.d.cfg.Trace = nil
			h.d.cfg.Violation = func(Violation) {}
			if data[0]&0x80 != 0 {
				h.d.SetQuirks(Quirks{ExactDoorbells: true, ReceiveCounterModulo: true, HoldResize: true})
				for _, q := range []*testQP{p.qa, p.qb} {
					if q.h == h {
						h.d.queues.objects[q.n].(*qp).exact = true
					}
				}
			}
		}
		fab := p.a.d.fabric
		fab.SetPace(1e6)
		s := script(data[1:])
		for range 200 {
			what, rest, ok := s.next()
			if !ok {
				break
			}
			switch what {
			case doCommand:
				out := p.a.d.Exec(rest, 0x200)
				if len(out) != 0x200 {
					t.Fatalf("Exec returned %d bytes, want 0x200", len(out))
				}
			case doStore:
				if len(rest) > 3 {
					off := int(rest[0])<<16 | int(rest[1])<<8 | int(rest[2])
					fab.lock()
					copy(p.a.mem.b[off%len(p.a.mem.b):], rest[3:])
					fab.unlock()
				}
			case doRing:
				if len(rest) > 3 {
					p.a.d.Ring(uint32(rest[0]), int(rest[1])<<8|int(rest[2]), rest[3:])
				}
			case doPost, doPostRaw:
				w := bytes.Clone(rest[:min(len(rest), 1024)])
				if what == doPost && len(w) >= 16 {
					prm.Ctrl.Index.Set(w, uint64(p.qa.pi))
					prm.Ctrl.QPN.Set(w, uint64(p.qa.n))
					prm.Ctrl.DS.Set(w, uint64(len(w)/16))
				}
				fab.lock()
				for off := 0; off < len(w); off += 64 {
					at := uint64(p.qa.pi+uint16(off/64)) & (1<<p.qa.logSQ - 1) * 64
					copy(p.a.mem.b[p.qa.sq-memoryBase+at:], w[off:min(off+64, len(w))])
				}
				p.qa.pi += uint16(len(w)+63) / 64
				binary.BigEndian.PutUint32(p.a.mem.b[p.qa.record-memoryBase+4:], uint32(p.qa.pi))
				fab.unlock()
				if len(w) >= 8 {
					p.a.d.Ring(p.a.uar, RegisterSend, w[:8])
				}
			case doReceive:
				if len(rest) == 0 {
					p.a.d.ReleaseResize()
					p.a.d.StrayCompletion(data[0]&0x40 != 0)
					continue
				}
				fab.lock()
				copy(p.b.mem.b[p.qb.rq-memoryBase+uint64(p.qb.rpi&15)*64:], rest[:min(len(rest), 64)])
				p.qb.rpi++
				binary.BigEndian.PutUint32(p.b.mem.b[p.qb.record-memoryBase:], uint32(p.qb.rpi))
				fab.unlock()
			}
		}
		p.a.d.Reset()
		p.b.d.Reset()
	})
}
