// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"
	"slices"
	"testing"

	"purerdma/test/connectx/prm"
	"purerdma/test/ethernet"
)

// testPort is a host that transfers frames with one SQ and some RQs.
type testPort struct {
	*host
	domain, tis, sqn uint32
	cq               *testCQ
	sq, record       uint64
	pi               uint16
	rqs              []*testRQ
}

// testRQ is a receive queue with 16 receives of two pieces.
type testRQ struct {
	p          *testPort
	n          uint32
	cq         *testCQ
	ring, data uint64
	record     uint64
	posted     uint16
}

const (
	firstPiece  = 64
	secondPiece = 1536
)

func newPortOn(t *testing.T, f *Fabric, addr byte) *testPort {
	p := &testPort{host: newHost(t, f, addr)}
	p.domain = p.object(prm.OpAllocTransportDomain)
	out := p.must(prm.OpCreateTIS, 0x20+prm.TISSize, nil, func(in []byte) {
		prm.TISC.TransportDomain.Set(prm.CreateContextIn.Context.Of(in), uint64(p.domain))
	})
	p.tis = uint32(prm.ObjectOut.Number.Get(out))
	p.cq, p.record, p.sq = p.host.cq(6, nil), p.alloc(8), p.alloc(64<<6)
	out = p.must(prm.OpCreateSQ, 0x20+prm.QueueContextSize, pages(p.sq, 64<<6), func(in []byte) {
		c := prm.CreateContextIn.Context.Of(in)
		prm.SQC.CQN.Set(c, uint64(p.cq.n))
		prm.SQC.TIS.Set(c, uint64(p.tis))
		prm.SQC.TISListSize.Set(c, 1)
		prm.SQC.FlushInError.Set(c, 1)
		p.wq(prm.SQC.WQ.Of(c), 6, 6, p.record)
		prm.WQ.UARPage.Set(prm.SQC.WQ.Of(c), uint64(p.uar))
	})
	p.sqn = uint32(prm.ObjectOut.Number.Get(out))
	p.state(prm.OpModifySQ, p.sqn, prm.QueueReset, prm.QueueReady)
	return p
}

// wq describes a work queue of 2^log strides of 2^stride bytes.
func (p *testPort) wq(w []byte, log, stride uint64, record uint64) {
	prm.WQ.Type.Set(w, prm.WQCyclic)
	prm.WQ.PD.Set(w, uint64(p.pd))
	prm.WQ.DBRAddr.Set(w, record)
	prm.WQ.LogSize.Set(w, log)
	prm.WQ.LogStride.Set(w, stride)
}

func (p *testPort) modifyState(op uint16, n uint32, from, to uint64) error {
	_, err := p.command(op, 0x20+prm.QueueContextSize, nil, func(in []byte) {
		prm.ModifyContextIn.Number.Set(in, uint64(n))
		prm.ModifyContextIn.State.Set(in, from)
		prm.SQC.State.Set(prm.ModifyContextIn.Context.Of(in), to) // at the same place as in RQC
	})
	return err
}

func (p *testPort) state(op uint16, n uint32, from, to uint64) {
	p.t.Helper()
	if err := p.modifyState(op, n, from, to); err != nil {
		p.t.Fatalf("p.modifyState: %v", err)
	}
}

// rq creates a ready receive queue with the given number of receives.
func (p *testPort) rq(receives uint16, change func(c []byte)) *testRQ {
	p.t.Helper()
	r := &testRQ{p: p, cq: p.host.cq(5, nil), ring: p.alloc(32 << 4), data: p.alloc(2048 << 4), record: p.alloc(8)}
	out := p.must(prm.OpCreateRQ, 0x20+prm.QueueContextSize, pages(r.ring, 32<<4), func(in []byte) {
		c := prm.CreateContextIn.Context.Of(in)
		prm.RQC.CQN.Set(c, uint64(r.cq.n))
		prm.RQC.FlushInError.Set(c, 1)
		p.wq(prm.RQC.WQ.Of(c), 4, 5, r.record)
		if change != nil {
			change(c)
		}
	})
	r.n = uint32(prm.ObjectOut.Number.Get(out))
	p.state(prm.OpModifyRQ, r.n, prm.QueueReset, prm.QueueReady)
	r.post(receives)
	p.rqs = append(p.rqs, r)
	return r
}

func (r *testRQ) post(n uint16) {
	for range n {
		i := uint64(r.posted % 16)
		w := r.p.bytes(r.ring+32*i, 32)
		for j, n := range []int{firstPiece, secondPiece} {
			prm.DataSeg.ByteCount.Set(w[16*j:], uint64(n))
			prm.DataSeg.LKey.Set(w[16*j:], uint64(r.p.key))
			prm.DataSeg.Address.Set(w[16*j:], r.data+2048*i+uint64(firstPiece*j))
		}
		r.posted++
	}
	be.PutUint32(r.p.bytes(r.record, 4), uint32(r.posted))
}

// next returns the next frame and its completion, or nil if there is none.
func (r *testRQ) next() (frame, cqe []byte) {
	r.p.t.Helper()
	e := r.cq.poll()
	if e == nil {
		return nil, nil
	}
	if op := prm.CQE.Opcode.Get(e); op != prm.CQERespSend {
		r.p.t.Fatalf("completion = %x, want a receive", e)
	}
	i := prm.CQE.WQECounter.Get(e) % 16
	return bytes.Clone(r.p.bytes(r.data+2048*i, int(prm.CQE.ByteCount.Get(e)))), e
}

// postInline posts a request of the SQ with data in an inline segment, whose length field is n.
func (p *testPort) postInline(data []byte, n int) {
	p.t.Helper()
	w := make([]byte, 36)
	prm.Ctrl.Opcode.Set(w, prm.WQESend)
	prm.Ctrl.Index.Set(w, uint64(p.pi))
	prm.Ctrl.QPN.Set(w, uint64(p.sqn))
	prm.Ctrl.Completion.Set(w, prm.CompletionAlways)
	prm.DataSeg.Inline.Set(w[32:], 1)
	prm.DataSeg.ByteCount.Set(w[32:], uint64(n))
	for w = append(w, data...); len(w)%16 != 0; {
		w = append(w, 0)
	}
	p.put(w)
}

// post posts a request of the SQ with inline headers and pieces of memory.
func (p *testPort) post(opcode uint64, seg func(e []byte), inline []byte, data []byte) {
	p.t.Helper()
	w := make([]byte, 32)
	prm.Ctrl.Opcode.Set(w, opcode)
	prm.Ctrl.Index.Set(w, uint64(p.pi))
	prm.Ctrl.QPN.Set(w, uint64(p.sqn))
	prm.Ctrl.Completion.Set(w, prm.CompletionAlways)
	prm.EthernetSeg.InlineSize.Set(w[16:], uint64(len(inline)))
	if seg != nil {
		seg(w[16:])
	}
	n := copy(w[16+prm.InlineStart:], inline)
	for w = append(w, inline[n:]...); len(w)%16 != 0; {
		w = append(w, 0)
	}
	if len(data) > 0 {
		at := p.alloc(len(data))
		copy(p.bytes(at, len(data)), data)
		half := len(data) / 2
		for _, part := range [][2]int{{0, half}, {half, len(data)}} {
			s := make([]byte, 16)
			prm.DataSeg.ByteCount.Set(s, uint64(part[1]-part[0]))
			prm.DataSeg.LKey.Set(s, uint64(p.key))
			prm.DataSeg.Address.Set(s, at+uint64(part[0]))
			w = append(w, s...)
		}
	}
	p.put(w)
}

// put posts a request unchanged, except for its length, and rings.
func (p *testPort) put(w []byte) {
	prm.Ctrl.DS.Set(w, uint64(len(w)/16))
	for len(w)%64 != 0 {
		w = append(w, 0)
	}
	first := w
	for ; len(w) > 0; w = w[64:] {
		copy(p.bytes(p.sq+uint64(p.pi%64)*64, 64), w[:64])
		p.pi++
	}
	be.PutUint32(p.bytes(p.record+4, 4), uint32(p.pi))
	p.d.Ring(p.uar, 0x800, first[:8])
}

// sent checks for a completion of the SQ.
func (p *testPort) sent(want prm.Syndrome) {
	p.t.Helper()
	e := p.cq.poll()
	if e == nil {
		p.t.Fatal("no completion of a send")
	}
	if op, s := prm.CQE.Opcode.Get(e), prm.Syndrome(prm.CQE.Syndrome.Get(e)); want == 0 && op != prm.CQEReq || want != 0 && (op != prm.CQEReqErr || s != want) {
		p.t.Errorf("completion %x, want syndrome %#x", e, want)
	}
	if prm.CQE.QPN.Get(e) != uint64(p.sqn) {
		p.t.Errorf("completion of queue %#x, not %#x", prm.CQE.QPN.Get(e), p.sqn)
	}
}

// tir creates a TIR for one RQ, or for a table of RQs with a hash.
func (p *testPort) tir(hash func(c []byte), rqs ...*testRQ) uint32 {
	p.t.Helper()
	table := uint64(0)
	if hash != nil {
		var list []byte
		for _, r := range rqs {
			list = be.AppendUint32(list, r.n)
		}
		out := p.must(prm.OpCreateRQT, 0x20+prm.TIRSize, list, func(in []byte) {
			c := prm.CreateContextIn.Context.Of(in)
			prm.RQTC.MaxSize.Set(c, 16)
			prm.RQTC.ActualSize.Set(c, uint64(len(rqs)))
		})
		table = prm.ObjectOut.Number.Get(out)
	}
	out := p.must(prm.OpCreateTIR, 0x20+prm.TIRSize, nil, func(in []byte) {
		c := prm.CreateContextIn.Context.Of(in)
		prm.TIRC.TransportDomain.Set(c, uint64(p.domain))
		prm.TIRC.InlineRQ.Set(c, uint64(rqs[0].n))
		if hash != nil {
			prm.TIRC.DispatchType.Set(c, prm.TIRIndirect)
			prm.TIRC.InlineRQ.Set(c, 0)
			prm.TIRC.Table.Set(c, table)
			hash(c)
		}
	})
	return uint32(prm.ObjectOut.Number.Get(out))
}

// all directs all frames to a TIR.
func (p *testPort) all(tir uint32) {
	table := p.table(0)
	p.setRoot(table)
	g := p.group(table, 0, 0, nil)
	p.entry(table, g, 0, prm.FlowForward, nil, to{prm.DestinationTIR, tir})
}

// frame returns an IPv4 frame with UDP or TCP between two ports, without checksums.
func (p *testPort) frame(o *testPort, proto byte, data []byte) []byte {
	l4 := []byte{0x30, 0x39, 0x00, 0x35, 0, 0, 0, 0}
	if proto == ethernet.TCP {
		l4 = append([]byte{0x30, 0x39, 0x00, 0x50, 0, 0, 1, 0, 0, 0, 0, 0, 5 << 4, ethernet.FIN | ethernet.PSH | ethernet.CWR}, make([]byte, 6)...)
	} else {
		be.PutUint16(l4[4:], uint16(len(data)+8))
	}
	ip := []byte{0x45, 0, 0, 0, 0x12, 0x34, 0, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}
	be.PutUint16(ip[2:], uint16(len(ip)+len(l4)+len(data)))
	return slices.Concat(o.d.mac[:], p.d.mac[:], []byte{8, 0}, ip, l4, data)
}

func checksums(e []byte) {
	prm.EthernetSeg.L3Checksum.Set(e, 1)
	prm.EthernetSeg.L4Checksum.Set(e, 1)
}
