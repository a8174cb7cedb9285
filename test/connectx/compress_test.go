// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"purerdma/test/connectx/prm"
)

func compressing(c []byte) { prm.CQC.Compression.Set(c, 1) }

// newCompressing returns a pair whose queues use compression.
func newCompressing(t *testing.T) *pair {
	p := newPair(t, prm.ServiceRC, nil)
	p.qa = p.a.qp(prm.ServiceRC, p.a.cq(5, compressing), p.a.cq(5, compressing), nil)
	p.qb = p.b.qp(prm.ServiceRC, p.b.cq(5, compressing), p.b.cq(5, compressing), nil)
	p.qa.connect(p.qb.n, p.b.gid, nil)
	p.qb.connect(p.qa.n, p.a.gid, nil)
	return p
}

// entry returns the last 64 bytes of a later entry of the ring.
func (q *testCQ) entry(ahead uint32) []byte {
	return q.h.bytes(q.buf+uint64((q.ci+ahead)&(1<<q.log-1))*64, 64)
}

// one is a completion, either compressed or not.
type one struct{ opcode, counter, bytes uint64 }

// expand returns the completions of the next entry, or none if there is no entry.
func (q *testCQ) expand() (all []one) {
	e := append([]byte(nil), q.entry(0)...)
	if uint32(prm.CQE.Owner.Get(e)) != q.ci>>q.log&1 || prm.CQE.Opcode.Get(e) == prm.CQEInvalid {
		return nil
	}
	n := uint32(1)
	if prm.CQE.Format.Get(e) != 3 {
		all = append(all, one{prm.CQE.Opcode.Get(e), prm.CQE.WQECounter.Get(e), prm.CQE.ByteCount.Get(e)})
	} else {
		n = uint32(prm.CQE.ByteCount.Get(e))
		for i := range n {
			b := q.entry(max(1, i/8*8))[i%8*8:][:8]
			counter := uint64(be.Uint16(b))
			if prm.CQE.Opcode.Get(e) != prm.CQEReq {
				counter = prm.CQE.WQECounter.Get(e) + uint64(i)
			}
			all = append(all, one{prm.CQE.Opcode.Get(e), counter, uint64(be.Uint32(b[4:]))})
		}
	}
	for i := range n { // like a driver that expands them
		last := q.entry(i)[60:]
		be.PutUint32(last, be.Uint32(last)&^0xf1|0x20|(q.ci+i)>>q.log&1)
	}
	q.ci += n
	be.PutUint32(q.h.bytes(q.record, 4), q.ci&prm.ConsumerIndexMask)
	return all
}

// TestCompress compresses any number of completions, on both sides, at all positions of the
// ring.
func TestCompress(t *testing.T) {
	p := newCompressing(t)
	from, to := p.a.alloc(4096), p.b.alloc(4096)
	for round := range 40 {
		n := round%16 + 1
		var ws []*wqe
		var sends, receives []one
		for i := range n {
			size := 64 + 10*i
			sends = append(sends, one{prm.CQEReq, uint64(p.qa.pi) + uint64(i), uint64(size)})
			receives = append(receives, one{prm.CQERespSend, uint64(p.qb.rpi), uint64(size)})
			p.qb.receive(to, 4096)
			ws = append(ws, request1(prm.WQESend, signaled, 0).data(size, p.a.key, from))
		}
		p.qb.recv.arm(0)
		p.qa.post(ws...)
		if got := p.qa.send.expand(); !slices.Equal(got, sends) {
			t.Fatalf("round %d: sends = %v, want %v", round, got, sends)
		}
		if got := p.qb.recv.expand(); !slices.Equal(got, receives) {
			t.Fatalf("round %d: receives = %v, want %v", round, got, receives)
		}
		if v := p.b.next(p.b.eq); v == nil || prm.EventCQN.Get(prm.EQE.Data.Of(v)) != uint64(p.qb.recv.n) {
			t.Fatalf("round %d: event = %x, want one of the receive CQ", round, v)
		}
		p.b.arm(p.b.eq, true)
	}
}

// TestCompressEnds creates completions behind held completions, with fields that cannot share
// their title. It covers failures, and queues that are full or destroyed.
func TestCompressEnds(t *testing.T) {
	counters := func(q *testCQ) (all [][]one) {
		for s := q.expand(); s != nil; s = q.expand() {
			all = append(all, s)
		}
		return all
	}
	lengths := func(all [][]one) (n []int) {
		for _, s := range all {
			n = append(n, len(s))
		}
		return n
	}
	p := newCompressing(t)
	p.qb.receive(memoryBase, 64)
	p.qa.post(atOnce(), atOnce(), request1(prm.WQESend, prm.CompletionEvent<<2, 0).inline([]byte("x")), atOnce(),
		request1(prm.WQEWrite, signaled, 0).remote(memoryBase, 0).inline([]byte("no key")), atOnce())
	got := counters(p.qa.send)
	if n := lengths(got); !slices.Equal(n, []int{2, 1, 1, 1, 1}) || got[3][0].opcode != prm.CQEReqErr || got[4][0].opcode != prm.CQEReqErr {
		t.Errorf("solicited and failed completions = %v", got)
	}

	p = newCompressing(t)
	p.a.tolerant = true
	var ws []*wqe
	for range 33 {
		ws = append(ws, atOnce())
	}
	p.qa.post(ws...)
	if n := lengths(counters(p.qa.send)); !slices.Equal(n, []int{32}) {
		t.Errorf("33 completions in a queue of 32 = %v, want 32", n)
	}
	if v := p.a.next(p.a.eq); v == nil || prm.EQE.Type.Get(v) != uint64(prm.EventCQError) {
		t.Errorf("event of a full queue = %x, want a CQ error", v)
	}

	p = newCompressing(t)
	p.locked(func() {
		p.qa.postLocked(atOnce(), atOnce())
		if n := lengths(counters(p.qa.send)); n != nil {
			t.Errorf("completions %v were not held", n)
		}
		p.a.d.ring(p.a.uar, RegisterCQ, be.AppendUint32(be.AppendUint32(nil, 0), p.qa.send.n))
		if n := lengths(counters(p.qa.send)); !slices.Equal(n, []int{2}) {
			t.Errorf("completions after arming = %v, want 2", n)
		}
		p.qa.postLocked(atOnce(), atOnce())
		p.a.d.reset()
	})
	if n := lengths(counters(p.qa.send)); n != nil {
		t.Errorf("completions after a reset = %v, want none", n)
	}
}

// TestCompressCommands issues commands while completions are held. The device must write these
// to their original places first.
func TestCompressCommands(t *testing.T) {
	for name, op := range map[string]uint16{"query": prm.OpQueryCQ, "QP destroyed": prm.OpDestroyQP, "resize": prm.OpModifyCQ} {
		p := newCompressing(t)
		q := p.qa.send
		in := make([]byte, 16)
		prm.ObjectIn.Number.Set(in, uint64(q.n))
		switch op {
		case prm.OpDestroyQP:
			prm.ObjectIn.Number.Set(in, uint64(p.qa.n))
		case prm.OpModifyCQ:
			in = append(make([]byte, 0x110), pages(p.a.alloc(64<<6), 64<<6)...)
			prm.HeaderIn.OpMod.Set(in, prm.OpModResizeCQ)
			prm.CQIn.CQN.Set(in, uint64(q.n))
			prm.CQIn.Select.Set(in, prm.ResizeCQEverything)
			prm.CQC.LogCQSize.Set(prm.CQIn.Context.Of(in), 6)
		}
		prm.HeaderIn.Opcode.Set(in, uint64(op))
		p.locked(func() {
			p.qa.postLocked(atOnce(), atOnce())
			out := p.a.d.exec(in, 0x400)
			if s := prm.Status(prm.HeaderOut.Status.Get(out)); s != prm.StatusOK {
				t.Errorf("%s = %v, want OK", name, s)
			}
			if n := prm.CQC.ProducerCounter.Get(prm.CQIn.Context.Of(out)); op == prm.OpQueryCQ && n != 2 {
				t.Errorf("%s = %d completions, want 2", name, n)
			}
			if got := q.expand(); len(got) != 2 {
				t.Errorf("%s: completions = %v, want 2", name, got)
			}
		})
		if got := q.expand(); op == prm.OpModifyCQ && (len(got) != 1 || got[0].opcode != prm.CQEResize) || op != prm.OpModifyCQ && got != nil {
			t.Errorf("%s: completions after it = %v", name, got)
		}
	}
}

// TestCompressInline creates completions with inline data, which cannot be compressed.
func TestCompressInline(t *testing.T) {
	p := newCompressing(t)
	short := func(c []byte) { prm.QPC.ScatterResp.Set(c, prm.ScatterResp32) }
	p.qb = p.b.qp(prm.ServiceRC, p.b.cq(5, compressing), p.b.cq(5, compressing), short)
	if err := p.qa.h.on(prm.Op2Rst, p.qa.n); err != nil {
		t.Fatalf("p.qa.h.on(Op2Rst): %v", err)
	}
	p.qa.connect(p.qb.n, p.b.gid, nil)
	p.qb.connect(p.qa.n, p.a.gid, short)
	var ws []*wqe
	for range 3 {
		p.qb.receive(p.b.alloc(64), 64)
		ws = append(ws, request1(prm.WQESend, signaled, 0).inline([]byte("in the CQE")))
	}
	p.qa.post(ws...)
	for i := range 3 {
		e := p.qb.recv.poll()
		if e == nil || prm.CQE.Format.Get(e) != 1 || !strings.HasPrefix(string(prm.CQE.Inline.Of(e)), "in the CQE") {
			t.Errorf("completion of receive %d = %x, want inline data", i, e)
		}
	}
}

// TestCompressShared sends messages to receives of an SRQ, which a title does not identify.
func TestCompressShared(t *testing.T) {
	p := newCompressing(t)
	s := p.b.srq()
	p.qb = p.b.qp(prm.ServiceRC, p.b.cq(5, compressing), p.b.cq(5, compressing), func(c []byte) {
		prm.QPC.RQType.Set(c, prm.RQShared)
		prm.QPC.SRQN.Set(c, uint64(s.n))
	})
	if err := p.qa.h.on(prm.Op2Rst, p.qa.n); err != nil {
		t.Fatalf("p.qa.h.on(Op2Rst): %v", err)
	}
	p.qa.connect(p.qb.n, p.b.gid, nil)
	p.qb.connect(p.qa.n, p.a.gid, nil)
	var ws []*wqe
	for i := range 3 {
		s.receive(uint16(i+1), p.b.alloc(64), 64)
		ws = append(ws, request1(prm.WQESend, signaled, 0).inline([]byte("x")))
	}
	p.qa.post(ws...)
	for range 3 {
		if got := p.qb.recv.expand(); len(got) != 1 {
			t.Errorf("receives = %v, want 1", got)
		}
	}
	if got := p.qa.send.expand(); len(got) != 3 {
		t.Errorf("sends = %v, want 3", got)
	}
}

// TestCompressNot requests unsupported formats, and a supported one.
func TestCompressNot(t *testing.T) {
	h := newHost(t, nil, 1)
	for name, change := range map[string]func(c []byte){
		"what it does":   func(c []byte) {},
		"128 bytes":      func(c []byte) { prm.CQC.CQESize.Set(c, prm.CQESize128) },
		"another format": func(c []byte) { prm.CQC.MiniFormat.Set(c, 2) },
		"another layout": func(c []byte) { prm.CQC.CompressionLayout.Set(c, 1) },
	} {
		_, err := h.command(prm.OpCreateCQ, 0x110, pages(h.alloc(4096), 4096), func(in []byte) {
			c := prm.CQIn.Context.Of(in)
			compressing(c)
			prm.CQC.LogCQSize.Set(c, 4)
			prm.CQC.UARPage.Set(c, uint64(h.uar))
			prm.CQC.EQN.Set(c, uint64(h.eq.n))
			prm.CQC.DBRAddr.Set(c, h.alloc(8))
			change(c)
		})
		if name == "what it does" && err != nil || name != "what it does" && !errors.Is(err, statusError(prm.StatusBadParam)) {
			t.Errorf("CREATE_CQ with %s = %v", name, err)
		}
	}
}
