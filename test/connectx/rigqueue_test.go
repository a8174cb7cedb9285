// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"encoding/binary"
	"testing"

	"purerdma/test/connectx/prm"
)

// host is a rig with the objects that programs create first. These are a page of registers, an
// event queue, a PD, an address, and a key for all of its memory.
type host struct {
	*rig
	uar, pd uint32
	eq      *testEQ
	key     uint32
	gid     [16]byte
}

var be = binary.BigEndian

func newHost(t *testing.T, f *Fabric, addr byte) *host {
	t.Helper()
	h := &host{rig: newRigOn(t, f)}
	h.begin(addr)
	return h
}

// begin creates these objects.
func (h *host) begin(addr byte) {
	h.t.Helper()
	h.uar, h.pd = h.object(prm.OpAllocUAR), h.object(prm.OpAllocPD)
	h.eq = h.rig.eq(h.uar, 1, prm.EventCQError, prm.EventWQCatas, prm.EventWQAccess, prm.EventWQInvalidReq, prm.EventSRQLastWQE,
		prm.EventSRQLimit, prm.EventCommEst, prm.EventPortChange, prm.EventDCTDrained, prm.EventSQDrained)
	h.gid = [16]byte{10: 0xff, 11: 0xff, 12: 10, 15: addr}
	h.must(prm.OpSetRoCEAddress, 0x30, nil, func(in []byte) {
		a := prm.RoCEAddressIn.Address.Of(in)
		copy(a, h.gid[:])
		prm.RoCEAddress.Vers.Set(a, prm.RoCEv2)
	})
	h.key = h.mkey(func(c []byte) {})
}

// mkey creates a key of all memory with all rights, modified by change.
func (h *host) mkey(change func(c []byte)) uint32 {
	h.t.Helper()
	list := pages(h.mem.base, len(h.mem.b))
	out := h.must(prm.OpCreateMkey, 0x110, list, func(in []byte) {
		c := prm.CreateMkeyIn.Context.Of(in)
		for _, f := range []prm.Field{prm.MKC.LocalRead, prm.MKC.LocalWrite, prm.MKC.RemoteRead, prm.MKC.RemoteWrite, prm.MKC.Atomic, prm.MKC.UMREnabled} {
			f.Set(c, 1)
		}
		prm.SetMode(c, prm.AccessMTT)
		prm.MKC.QPN.Set(c, prm.AnyQP)
		prm.MKC.Key.Set(c, 0x5a)
		prm.MKC.PD.Set(c, uint64(h.pd))
		prm.MKC.StartAddr.Set(c, h.mem.base)
		prm.MKC.Length.Set(c, uint64(len(h.mem.b)))
		prm.MKC.LogPageSize.Set(c, 12)
		prm.MKC.TranslationOctwords.Set(c, uint64(len(list)/16))
		prm.CreateMkeyIn.TranslationOctwordsActual.Set(in, uint64(len(list)/16))
		change(c)
	})
	return uint32(prm.ObjectOut.Number.Get(out))<<8 | 0x5a
}

// testCQ is a completion queue of the rig.
type testCQ struct {
	h      *host
	n, ci  uint32
	buf    uint64
	record uint64
	log    uint
	size   int
}

func (h *host) cq(log uint, change func(c []byte)) *testCQ {
	h.t.Helper()
	q := &testCQ{h: h, log: log, size: 64, record: h.alloc(8)}
	c := make([]byte, 64)
	prm.CQC.LogCQSize.Set(c, uint64(log))
	prm.CQC.UARPage.Set(c, uint64(h.uar))
	prm.CQC.EQN.Set(c, uint64(h.eq.n))
	prm.CQC.DBRAddr.Set(c, q.record)
	if change != nil {
		change(c)
	}
	if prm.CQC.CQESize.Get(c) != 0 {
		q.size = 128
	}
	q.buf = h.ring(q.size<<log, q.size)
	out := h.must(prm.OpCreateCQ, 0x110, pages(q.buf, q.size<<log), func(in []byte) { copy(prm.CQIn.Context.Of(in), c) })
	q.n = uint32(prm.ObjectOut.Number.Get(out))
	return q
}

// ring returns memory for completions, in which all entries are invalid.
func (h *host) ring(n, size int) uint64 {
	buf := h.alloc(n)
	for b := h.bytes(buf, n); len(b) > 0; b = b[size:] {
		b[size-1] = 0xf1
	}
	return buf
}

// poll returns the next completion, or nil if there is none. It updates the consumer index.
func (q *testCQ) poll() []byte {
	e := q.h.bytes(q.buf+uint64(int(q.ci&(1<<q.log-1))*q.size), q.size)
	last := e[q.size-64:]
	if uint32(prm.CQE.Owner.Get(last)) != q.ci>>q.log&1 || prm.CQE.Opcode.Get(last) == prm.CQEInvalid {
		return nil
	}
	q.ci++
	be.PutUint32(q.h.bytes(q.record, 4), q.ci&prm.ConsumerIndexMask)
	return append([]byte(nil), last...)
}

// arm requests an event.
func (q *testCQ) arm(flags uint32) {
	w := q.ci&prm.ConsumerIndexMask | flags
	be.PutUint32(q.h.bytes(q.record+4, 4), w)
	q.h.d.Ring(q.h.uar, RegisterCQ, be.AppendUint32(be.AppendUint32(nil, w), q.n))
}

// testQP is a QP of the rig, with 64 WQEBBs and 16 receives of 4 elements.
type testQP struct {
	h            *host
	n            uint32
	send, recv   *testCQ
	rq, sq       uint64
	record       uint64
	pi, rpi      uint16
	bf           int
	logSQ, logRQ uint
}

func (h *host) qp(service uint64, send, recv *testCQ, change func(c []byte)) *testQP {
	h.t.Helper()
	q := &testQP{h: h, send: send, recv: recv, record: h.alloc(8), logSQ: 6, logRQ: 4}
	size := 64<<q.logSQ + 64<<q.logRQ
	q.rq = h.alloc(size)
	q.sq = q.rq + 64<<q.logRQ
	c := make([]byte, 232)
	prm.QPC.Service.Set(c, service)
	prm.QPC.PD.Set(c, uint64(h.pd))
	prm.QPC.UARPage.Set(c, uint64(h.uar))
	prm.QPC.SendCQN.Set(c, uint64(send.n))
	prm.QPC.RecvCQN.Set(c, uint64(recv.n))
	prm.QPC.LogSQSize.Set(c, uint64(q.logSQ))
	prm.QPC.LogRQSize.Set(c, uint64(q.logRQ))
	prm.QPC.LogRQStride.Set(c, 2)
	prm.QPC.DBRAddr.Set(c, q.record)
	prm.QPC.UserIndex.Set(c, 0x77)
	if change != nil {
		change(c)
	}
	if prm.QPC.RQType.Get(c) != prm.RQRegular {
		q.sq = q.rq
	}
	out := h.must(prm.OpCreateQP, prm.QPInLen, pages(q.rq, size), func(in []byte) { copy(prm.QPIn.Context.Of(in), c) })
	q.n = uint32(prm.ObjectOut.Number.Get(out))
	return q
}

// modify issues the command of a transition.
func (q *testQP) modify(opcode uint16, change func(c []byte)) error {
	_, err := q.h.command(opcode, prm.QPInLen, nil, func(in []byte) {
		prm.QPIn.QPN.Set(in, uint64(q.n))
		if change != nil {
			change(prm.QPIn.Context.Of(in))
		}
	})
	return err
}

// connect moves a QP to RTS, connected to a number at an address. change modifies all contexts
// on the way.
func (q *testQP) connect(qpn uint32, gid [16]byte, change func(c []byte)) {
	q.h.t.Helper()
	for _, op := range []uint16{prm.OpRst2Init, prm.OpInit2RTR, prm.OpRTR2RTS} {
		if err := q.modify(op, func(c []byte) {
			for _, f := range []prm.Field{prm.QPC.RemoteRead, prm.QPC.RemoteWrite, prm.QPC.RemoteAtomic} {
				f.Set(c, 1)
			}
			prm.QPC.MTU.Set(c, 3)
			prm.QPC.RemoteQPN.Set(c, uint64(qpn))
			prm.QPC.RetryCount.Set(c, 2)
			prm.QPC.RNRRetry.Set(c, 2)
			prm.QPC.MinRNRNAK.Set(c, 1)
			prm.QPC.LogSRAMax.Set(c, 2)
			prm.QPC.LogRRAMax.Set(c, 2)
			prm.QPC.NextSendPSN.Set(c, 0xfffff0)
			prm.QPC.NextRecvPSN.Set(c, 0xfffff0)
			prm.QPC.QKey.Set(c, 0x11)
			prm.ADS.AckTimeout.Set(prm.QPC.Primary.Of(c), 8)
			copy(prm.ADS.RGID.Of(prm.QPC.Primary.Of(c)), gid[:])
			if change != nil {
				change(c)
			}
		}); err != nil {
			q.h.t.Fatalf("q.modify: %v", err)
		}
	}
}

// again resets two connected QPs, empties their queues, and connects them again.
func (q *testQP) again(peer *testQP) {
	q.h.t.Helper()
	for _, e := range []*testQP{q, peer} {
		if err := e.h.on(prm.Op2Rst, e.n); err != nil {
			e.h.t.Fatalf("e.h.on(Op2Rst): %v", err)
		}
		e.pi, e.rpi = 0, 0
		clear(e.h.bytes(e.record, 8))
		for e.send.poll() != nil || e.recv.poll() != nil {
		}
	}
	q.connect(peer.n, peer.h.gid, nil)
	peer.connect(q.n, q.h.gid, nil)
}

// wqe is a send request under construction.
type wqe struct{ b []byte }

func request1(opcode uint8, flags uint8, imm uint32) *wqe {
	w := &wqe{make([]byte, 16)}
	w.b[3], w.b[11] = opcode, flags
	be.PutUint32(w.b[12:], imm)
	return w
}

// atOnce returns a request that is executed when it is posted. A NOP may wait for the rest of
// its copy.
func atOnce() *wqe { return request1(prm.WQEWrite, signaled, 0).remote(0, 0) }

const signaled = prm.CompletionAlways << 2

func (w *wqe) remote(addr uint64, key uint32) *wqe {
	w.b = be.AppendUint32(be.AppendUint32(be.AppendUint64(w.b, addr), key), 0)
	return w
}

func (w *wqe) atomic(swapAdd, compare uint64) *wqe {
	w.b = be.AppendUint64(be.AppendUint64(w.b, swapAdd), compare)
	return w
}

func (w *wqe) data(n int, key uint32, addr uint64) *wqe {
	w.b = be.AppendUint64(be.AppendUint32(be.AppendUint32(w.b, uint32(n)), key), addr)
	return w
}

func (w *wqe) inline(p []byte) *wqe {
	w.b = append(be.AppendUint32(w.b, 1<<31|uint32(len(p))), p...)
	for len(w.b)%16 != 0 {
		w.b = append(w.b, 0)
	}
	return w
}

// av appends an address vector.
func (w *wqe) av(gid [16]byte, qpn uint32, key uint64) *wqe {
	av := make([]byte, prm.AVLen)
	if key <= 0xffffffff {
		prm.AV.QKey.Set(av, key)
	} else {
		prm.AV.DCKey.Set(av, key)
	}
	prm.AV.Extended.Set(av, 1)
	prm.AV.DestQPN.Set(av, uint64(qpn))
	prm.AV.GRH.Set(av, 1)
	prm.AV.HopLimit.Set(av, 64)
	copy(prm.AV.RGID.Of(av), gid[:])
	w.b = append(w.b, av...)
	return w
}

// put writes requests to the ring without a doorbell.
func (q *testQP) put(ws ...*wqe) (last []byte) {
	for _, w := range ws {
		be.PutUint32(w.b, uint32(q.pi)<<8|uint32(w.b[3]))
		be.PutUint32(w.b[4:], q.n<<8|uint32(len(w.b)/16))
		for off := 0; off < len(w.b); off += 64 {
			at := (uint64(q.pi)*64 + uint64(off)) & (64<<q.logSQ - 1)
			copy(q.h.bytes(q.sq+at, 64), w.b[off:])
		}
		q.pi += uint16(len(w.b)+63) / 64
		last = w.b
	}
	return last
}

// post posts requests, and rings once.
func (q *testQP) post(ws ...*wqe) {
	last := q.put(ws...)
	be.PutUint32(q.h.bytes(q.record+4, 4), uint32(q.pi))
	q.h.d.Ring(q.h.uar, RegisterSend+q.bf, last[:8])
	q.bf ^= sendSize
}

// receive posts a receive of pieces of memory, each an address and a length.
func (q *testQP) receive(pieces ...uint64) {
	w := q.h.bytes(q.rq+uint64(q.rpi&(1<<q.logRQ-1))*64, 64)
	putReceive(w, q.h.key, pieces)
	q.rpi++
	be.PutUint32(q.h.bytes(q.record, 4), uint32(q.rpi))
}

func putReceive(w []byte, key uint32, pieces []uint64) {
	clear(w)
	for len(pieces) > 0 {
		be.PutUint32(w, uint32(pieces[1]))
		be.PutUint32(w[4:], key)
		be.PutUint64(w[8:], pieces[0])
		w, pieces = w[16:], pieces[2:]
	}
	if len(w) > 0 {
		be.PutUint32(w[4:], prm.ReservedLKey)
	}
}

// pair contains two hosts on one fabric, each with a connected QP.
type pair struct {
	a, b   *host
	qa, qb *testQP
}

func newPair(t *testing.T, service uint64, change func(c []byte)) *pair {
	t.Helper()
	f := NewFabric()
	p := &pair{a: newHost(t, f, 1), b: newHost(t, f, 2)}
	p.b.d.cfg.Name = "hcb"
	p.qa = p.a.qp(service, p.a.cq(5, nil), p.a.cq(5, nil), nil)
	p.qb = p.b.qp(service, p.b.cq(5, nil), p.b.cq(5, nil), nil)
	p.qa.connect(p.qb.n, p.b.gid, change)
	p.qb.connect(p.qa.n, p.a.gid, change)
	return p
}

// want polls one completion and compares its fields.
func (q *testCQ) want(opcode uint64, fields map[*prm.Field]uint64) []byte {
	q.h.t.Helper()
	e := q.poll()
	if e == nil {
		q.h.t.Fatalf("no completion, want opcode %#x", opcode)
	}
	if got := prm.CQE.Opcode.Get(e); got != opcode {
		q.h.t.Fatalf("completion with opcode %#x, syndrome %#x, want opcode %#x", got, prm.CQE.Syndrome.Get(e), opcode)
	}
	for f, v := range fields {
		if got := f.Get(e); got != v {
			q.h.t.Errorf("field %+v of the completion = %#x, want %#x", *f, got, v)
		}
	}
	return e
}

// empty checks that there is no completion.
func (q *testCQ) empty() {
	q.h.t.Helper()
	if e := q.poll(); e != nil {
		q.h.t.Errorf("completion with opcode %#x, syndrome %#x, want none", prm.CQE.Opcode.Get(e), prm.CQE.Syndrome.Get(e))
	}
}
