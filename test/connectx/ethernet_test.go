// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"purerdma/test/connectx/prm"
)

// testPort is a host whose frames go through one SQ and some RQs.
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
		prm.SQC.State.Set(prm.ModifyContextIn.Context.Of(in), to) // where RQC has it
	})
	return err
}

func (p *testPort) state(op uint16, n uint32, from, to uint64) {
	p.t.Helper()
	if err := p.modifyState(op, n, from, to); err != nil {
		p.t.Fatal(err)
	}
}

// rq makes a receive queue, ready, with that many receives.
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

// next returns the next frame and its completion, nil if there is none.
func (r *testRQ) next() (frame, cqe []byte) {
	r.p.t.Helper()
	e := r.cq.poll()
	if e == nil {
		return nil, nil
	}
	if op := prm.CQE.Opcode.Get(e); op != prm.CQERespSend {
		r.p.t.Fatalf("completion %x", e)
	}
	i := prm.CQE.WQECounter.Get(e) % 16
	return bytes.Clone(r.p.bytes(r.data+2048*i, int(prm.CQE.ByteCount.Get(e)))), e
}

// post gives the SQ a request: inline headers, then pieces of memory.
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

// put posts a request as it is, but for its length, and rings.
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

// sent wants a completion of the SQ.
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

// tir makes a TIR for one RQ, or for a table of them with a hash.
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

// all has all frames go to a TIR.
func (p *testPort) all(tir uint32) {
	table := p.table(0)
	p.setRoot(table)
	g := p.group(table, 0, 0, nil)
	p.entry(table, g, 0, prm.FlowForward, nil, to{prm.DestinationTIR, tir})
}

// frame returns one of IPv4 and UDP or TCP between two ports, with no checksums.
func (p *testPort) frame(o *testPort, proto byte, data []byte) []byte {
	l4 := []byte{0x30, 0x39, 0x00, 0x35, 0, 0, 0, 0}
	if proto == protoTCP {
		l4 = append([]byte{0x30, 0x39, 0x00, 0x50, 0, 0, 1, 0, 0, 0, 0, 0, 5 << 4, tcpFIN | tcpPSH | tcpCWR}, make([]byte, 6)...)
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

func TestFrames(t *testing.T) {
	f := NewFabric()
	a, b := newPortOn(t, f, 1), newPortOn(t, f, 2)
	r := b.rq(16, nil)
	b.all(b.tir(nil, r))
	for i, n := range []int{1, 2, 18, 19, 100, 1400} {
		for _, proto := range []byte{protoUDP, protoTCP} {
			for _, inline := range []int{0, 2, 14, 18, 19, 42} {
				data := bytes.Repeat([]byte{byte(i + 1)}, n)
				frame := a.frame(b, proto, data)
				a.post(prm.WQESend, checksums, frame[:inline], frame[inline:])
				a.sent(0)
				got, e := r.next()
				h, _ := parse(got)
				if len(got) != len(frame) || !bytes.Equal(got[:16], frame[:16]) || !bytes.HasSuffix(got, data) {
					t.Fatalf("%d bytes of protocol %d, %d inline: got %x, want %x", n, proto, inline, got, frame)
				}
				if ok3, ok4 := h.verify(); !ok3 || !ok4 || !prm.EthernetCQE.L3OK.Is(e) || !prm.EthernetCQE.L4OK.Is(e) {
					t.Errorf("%d bytes of protocol %d: checksums %v, %v, completion %x", n, proto, ok3, ok4, e)
				}
				if c := prm.EthernetCQE.Checksum.Get(e); uint16(c) != fold(sum(got[14:], 0)) {
					t.Errorf("%d bytes of protocol %d: sum %#x", n, proto, c)
				}
				r.post(1)
			}
		}
	}
	// Nobody else's, not without a receive, and not one's own.
	frame := a.frame(b, protoUDP, []byte("x"))
	frame[5]++
	a.post(prm.WQESend, nil, nil, frame)
	frame = a.frame(a, protoUDP, []byte("x"))
	a.post(prm.WQESend, nil, nil, frame)
	if got, _ := r.next(); got != nil {
		t.Errorf("a frame to another address: %x", got)
	}
	a.sent(0)
	a.sent(0)
	if c := a.d.fw.port.frames.sent[unicastFrames]; c.frames != 74 {
		t.Errorf("%d frames sent", c.frames)
	}
	if c := b.d.fw.port.frames.received[unicastFrames]; c.frames != 72 {
		t.Errorf("%d frames received", c.frames)
	}
}

// TestFrameLost: a frame without a receive counts, one that does not fit or comes
// while the port is down is lost.
func TestFrameLost(t *testing.T) {
	f := NewFabric()
	a, b := newPortOn(t, f, 1), newPortOn(t, f, 2)
	counter := uint64(b.object(prm.OpAllocQCounter))
	r := b.rq(1, func(c []byte) { prm.RQC.Counters.Set(c, counter) })
	b.all(b.tir(nil, r))
	send := func(n int) {
		t.Helper()
		a.post(prm.WQESend, nil, nil, a.frame(b, protoUDP, make([]byte, n)))
		a.sent(0)
	}
	send(firstPiece + secondPiece)
	b.d.SetPort(false)
	send(1)
	b.d.SetPort(true)
	if got, _ := r.next(); got != nil {
		t.Errorf("got %x", got)
	}
	send(10)
	send(11)
	if got, _ := r.next(); len(got) != 52 {
		t.Errorf("got %x", got)
	}
	out := b.must(prm.OpQueryQCounter, 0x20, nil, func(in []byte) { prm.QueryQCounterIn.ID.Set(in, counter) })
	if n := prm.QueryQCounterOut.OutOfBuffer.Get(out); n != 1 {
		t.Errorf("%d frames out of buffer", n)
	}
}

func TestLSO(t *testing.T) {
	f := NewFabric()
	a, b := newPortOn(t, f, 1), newPortOn(t, f, 2)
	r := b.rq(16, nil)
	b.all(b.tir(nil, r))
	data := make([]byte, 3500)
	for i := range data {
		data[i] = byte(i * 7)
	}
	frame := a.frame(b, protoTCP, data)
	a.post(prm.WQELSO, func(e []byte) { checksums(e); prm.EthernetSeg.MSS.Set(e, 1000) }, frame[:54], frame[54:])
	a.sent(0)
	var all []byte
	for i := range 4 {
		got, e := r.next()
		if got == nil {
			t.Fatalf("segment %d does not come", i)
		}
		h, _ := parse(got)
		if !prm.EthernetCQE.L3OK.Is(e) || !prm.EthernetCQE.L4OK.Is(e) || len(h.ip) != len(got)-14 {
			t.Errorf("segment %d: completion %x, %d bytes of IP in a frame of %d", i, e, len(h.ip), len(got))
		}
		if id, seq := be.Uint16(h.ip[4:]), be.Uint32(h.l4[4:]); int(id) != 0x1234+i || int(seq) != 0x100+1000*i {
			t.Errorf("segment %d: ID %#x, sequence %#x", i, id, seq)
		}
		want := byte(0)
		if i == 0 {
			want |= tcpCWR
		}
		if i == 3 {
			want |= tcpFIN | tcpPSH
		}
		if h.l4[13] != want {
			t.Errorf("segment %d: flags %#x, want %#x", i, h.l4[13], want)
		}
		all = append(all, h.l4[20:]...)
	}
	if got, _ := r.next(); got != nil || !bytes.Equal(all, data) {
		t.Errorf("%d bytes came, or others", len(all))
	}
	// IPv6, and headers that are none.
	ip6 := slices.Concat(b.d.mac[:], a.d.mac[:], []byte{0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, protoTCP, 64}, make([]byte, 32), frame[34:54])
	got := cutTCP(slices.Concat(ip6, data), len(ip6), 3000)
	if len(got) != 2 || be.Uint16(got[0][18:]) != 3020 || be.Uint16(got[1][18:]) != 520 {
		t.Errorf("IPv6: %d segments", len(got))
	}
	for n := range 54 {
		if cutTCP(frame, n, 1000) != nil {
			t.Errorf("cut with %d bytes of headers", n)
		}
	}
}

func TestVLAN(t *testing.T) {
	f := NewFabric()
	a, b := newPortOn(t, f, 1), newPortOn(t, f, 2)
	strip, keep := b.rq(2, nil), b.rq(2, func(c []byte) { prm.RQC.VLANStripDisable.Set(c, 1) })
	table := b.table(0)
	b.setRoot(table)
	g := b.group(table, 0, 7, func(m []byte) { prm.Match.CVLANTag.Set(m, 1); prm.Match.VLAN.Set(m, 0xfff) })
	for vlan, r := range map[uint64]*testRQ{5: strip, 6: keep} {
		b.entry(table, g, uint32(vlan), prm.FlowForward, func(m []byte) { prm.Match.CVLANTag.Set(m, 1); prm.Match.VLAN.Set(m, vlan) }, to{prm.DestinationTIR, b.tir(nil, r)})
	}
	plain := a.frame(b, protoUDP, []byte("tagged"))
	for _, vlan := range []byte{0, 5, 6, 7} {
		frame := plain
		if vlan > 0 {
			frame = slices.Concat(plain[:12], []byte{0x81, 0, 0x60, vlan}, plain[12:])
		}
		a.post(prm.WQESend, nil, frame[:18], frame[18:])
		a.sent(0)
	}
	if got, e := strip.next(); !bytes.Equal(got, plain) || !prm.CQE.VLANStripped.Is(e) || prm.CQE.VLANTag.Get(e) != 0x6005 {
		t.Errorf("stripped: %x, %x", got, e)
	}
	if got, e := keep.next(); len(got) != len(plain)+4 || prm.CQE.VLANStripped.Is(e) || uint16(prm.EthernetCQE.Checksum.Get(e)) != fold(sum(plain[14:], 0)) {
		t.Errorf("kept: %x, %x", got, e)
	}
	for _, r := range b.rqs {
		if got, _ := r.next(); got != nil {
			t.Errorf("one more: %x", got)
		}
	}
}

// TestToeplitz has values from the definition of receive-side scaling.
func TestToeplitz(t *testing.T) {
	key, _ := hex.DecodeString("6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa")
	for in, want := range map[string]uint32{
		"420995bba18e6450":         0x323e8fc2,
		"420995bba18e64500aea06e6": 0x51ccc178,
	} {
		b, _ := hex.DecodeString(in)
		if got := toeplitz(key, b); got != want {
			t.Errorf("%s: %#x, want %#x", in, got, want)
		}
	}
}

// TestRSS: frames of one flow go to one queue, those of many to all.
func TestRSS(t *testing.T) {
	f := NewFabric()
	a, b := newPortOn(t, f, 1), newPortOn(t, f, 2)
	rqs := []*testRQ{b.rq(16, nil), b.rq(16, nil), b.rq(16, nil), b.rq(16, nil)}
	b.all(b.tir(func(c []byte) {
		prm.TIRC.HashFunction.Set(c, prm.HashToeplitz)
		for i := range prm.TIRC.ToeplitzKey.Of(c) {
			prm.TIRC.ToeplitzKey.Of(c)[i] = byte(i*37 + 11)
		}
		prm.TIRC.HashL4UDP.Set(c, 1)
		prm.TIRC.HashFields.Set(c, prm.HashSrcIP|prm.HashDstIP|prm.HashL4Sport|prm.HashL4Dport)
	}, rqs...))
	where := func() (n int) {
		n = -1
		for i, r := range rqs {
			if got, e := r.next(); got != nil {
				n = i
				if hash := prm.EthernetCQE.RSSHash.Get(e); int(hash%4) != i || prm.EthernetCQE.RSSL4.Get(e) != prm.RSSUDP || prm.EthernetCQE.RSSIP.Get(e) != prm.RSSIPv4 {
					t.Errorf("queue %d: completion %x", i, e)
				}
				r.post(1)
			}
		}
		return n
	}
	hit := map[int]int{}
	for port := range uint16(64) {
		frame := a.frame(b, protoUDP, []byte("rss"))
		be.PutUint16(frame[34:], 1000+port)
		last := -2
		for range 2 {
			a.post(prm.WQESend, checksums, nil, frame)
			a.sent(0)
			n := where()
			if n < 0 || last >= 0 && n != last {
				t.Fatalf("port %d: queue %d, then %d", port, last, n)
			}
			last = n
		}
		hit[last]++
	}
	if len(hit) != 4 {
		t.Errorf("64 flows went to %v", hit)
	}
}

// TestSQErrors: what is wrong with a request ends the queue, and the rest is flushed.
func TestSQErrors(t *testing.T) {
	f := NewFabric()
	for what, tc := range map[string]struct {
		post func(p *testPort)
		want prm.Syndrome
	}{
		"key": {func(p *testPort) {
			key := p.key
			p.key ^= 1
			p.post(prm.WQESend, nil, nil, []byte("xxxx"))
			p.key = key
		}, prm.SyndromeLocalProt},
		"opcode": {func(p *testPort) { p.post(prm.WQEWrite, nil, nil, []byte("xxxx")) }, prm.SyndromeLocalQPOp},
		"inline": {func(p *testPort) {
			p.post(prm.WQESend, func(e []byte) { prm.EthernetSeg.InlineSize.Set(e, 200) }, nil, nil)
		}, prm.SyndromeLocalQPOp},
		"no segment": {func(p *testPort) {
			w := make([]byte, 16)
			prm.Ctrl.Opcode.Set(w, prm.WQESend)
			prm.Ctrl.Index.Set(w, uint64(p.pi))
			prm.Ctrl.QPN.Set(w, uint64(p.sqn))
			p.put(w)
		}, prm.SyndromeLocalQPOp},
		"LSO without headers": {func(p *testPort) {
			p.post(prm.WQELSO, func(e []byte) { prm.EthernetSeg.MSS.Set(e, 100) }, nil, make([]byte, 300))
		}, prm.SyndromeLocalQPOp},
	} {
		p := newPortOn(t, f, 1)
		p.tolerant = true
		tc.post(p)
		p.sent(tc.want)
		if len(p.violated()) == 0 {
			t.Errorf("%s: no violation", what)
		}
		p.post(prm.WQENop, nil, nil, nil)
		p.sent(prm.SyndromeFlush)
		out := p.must(prm.OpQuerySQ, 16, nil, func(in []byte) { prm.ObjectIn.Number.Set(in, uint64(p.sqn)) })
		if s := prm.SQC.State.Get(prm.CreateContextIn.Context.Of(out)); s != prm.QueueError {
			t.Errorf("%s: state %d", what, s)
		}
		// As mlx5e recovers.
		p.state(prm.OpModifySQ, p.sqn, prm.QueueError, prm.QueueReset)
		p.pi = 0
		be.PutUint32(p.bytes(p.record+4, 4), 0)
		p.state(prm.OpModifySQ, p.sqn, prm.QueueReset, prm.QueueReady)
		p.post(prm.WQENop, nil, nil, nil)
		p.sent(0)
	}
}

// TestRQErrors: the same of receives.
func TestRQErrors(t *testing.T) {
	f := NewFabric()
	a, b := newPortOn(t, f, 1), newPortOn(t, f, 2)
	b.tolerant = true
	b.key ^= 1
	r := b.rq(3, nil)
	b.all(b.tir(nil, r))
	a.post(prm.WQESend, nil, nil, a.frame(b, protoUDP, []byte("x")))
	e := r.cq.poll()
	if e == nil || prm.CQE.Opcode.Get(e) != prm.CQERespErr || prm.Syndrome(prm.CQE.Syndrome.Get(e)) != prm.SyndromeLocalProt {
		t.Fatalf("completion %x", e)
	}
	b.state(prm.OpModifyRQ, r.n, prm.QueueError, prm.QueueError)
	for range 2 {
		if e := r.cq.poll(); e == nil || prm.Syndrome(prm.CQE.Syndrome.Get(e)) != prm.SyndromeFlush {
			t.Errorf("completion %x, not flushed", e)
		}
	}
	if r.cq.poll() != nil {
		t.Error("one completion more than receives")
	}
}

func TestQueueMistakes(t *testing.T) {
	p := newPortOn(t, nil, 1)
	r := p.rq(0, nil)
	create := func(op uint16, change func(c []byte)) error {
		_, err := p.command(op, 0x20+prm.QueueContextSize, pages(p.sq, PageSize), func(in []byte) {
			c := prm.CreateContextIn.Context.Of(in)
			prm.SQC.CQN.Set(c, uint64(p.cq.n))
			p.wq(prm.SQC.WQ.Of(c), 6, 6, p.record)
			if op == prm.OpCreateSQ {
				prm.SQC.TIS.Set(c, uint64(p.tis))
				prm.SQC.TISListSize.Set(c, 1)
				prm.WQ.UARPage.Set(prm.SQC.WQ.Of(c), uint64(p.uar))
			}
			change(c)
		})
		return err
	}
	wq := func(f prm.Field, v uint64) func(c []byte) { return func(c []byte) { f.Set(prm.SQC.WQ.Of(c), v) } }
	for what, tc := range map[string]struct {
		err  error
		want prm.Status
	}{
		"SQ with a CQ that is not there":   {create(prm.OpCreateSQ, func(c []byte) { prm.SQC.CQN.Set(c, 0xfff) }), prm.StatusBadResource},
		"SQ with a TIS that is not there":  {create(prm.OpCreateSQ, func(c []byte) { prm.SQC.TIS.Set(c, 0xfff) }), prm.StatusBadResource},
		"SQ with a page that is not there": {create(prm.OpCreateSQ, wq(prm.WQ.UARPage, 0xfff)), prm.StatusBadResource},
		"RQ with a PD that is not there":   {create(prm.OpCreateRQ, wq(prm.WQ.PD, 0xfff)), prm.StatusBadResource},
		"RQ of a linked list":              {create(prm.OpCreateRQ, wq(prm.WQ.Type, prm.WQLinkedList)), prm.StatusBadParam},
		"RQ with a record at 3":            {create(prm.OpCreateRQ, wq(prm.WQ.DBRAddr, 3)), prm.StatusBadParam},
		"RQ that is too long":              {create(prm.OpCreateRQ, wq(prm.WQ.LogSize, 31)), prm.StatusBadParam},
		"RQ with too few pages":            {create(prm.OpCreateRQ, wq(prm.WQ.LogSize, 7)), prm.StatusBadParam},
		"RQ with strides of 8 bytes":       {create(prm.OpCreateRQ, wq(prm.WQ.LogStride, 3)), prm.StatusBadParam},
		"SQ with strides of 32 bytes":      {create(prm.OpCreateSQ, wq(prm.WQ.LogStride, 5)), prm.StatusBadParam},
		"RQ with an RMP's memory":          {create(prm.OpCreateRQ, func(c []byte) { prm.RQC.MemType.Set(c, 1) }), prm.StatusBadParam},
		"SQ that is not there":             {p.modifyState(prm.OpModifySQ, r.n+1000, 0, 1), prm.StatusBadResource},
		"RQ that is not there":             {p.modifyState(prm.OpModifyRQ, p.sqn+1000, 0, 1), prm.StatusBadResource},
		"SQ from a state it is not in":     {p.modifyState(prm.OpModifySQ, p.sqn, prm.QueueReset, prm.QueueReady), prm.StatusBadResState},
		"RQ to a state that is not there":  {p.modifyState(prm.OpModifyRQ, r.n, prm.QueueReady, 2), prm.StatusBadParam},
		"TIS in use":                       {p.on(prm.OpDestroyTIS, p.tis), prm.StatusResourceBusy},
		"domain in use":                    {p.on(prm.OpDeallocTransportDomain, p.domain), prm.StatusResourceBusy},
		"CQ in use":                        {p.on(prm.OpDestroyCQ, p.cq.n), prm.StatusResourceBusy},
		"QP's command on an SQ":            {p.on(prm.OpDestroyQP, p.sqn), prm.StatusBadResource},
	} {
		if !errors.Is(tc.err, statusError(tc.want)) {
			t.Errorf("%s: %v, want %v", what, tc.err, tc.want)
		}
	}
	for _, err := range []error{p.on(prm.OpDestroySQ, p.sqn), p.on(prm.OpDestroyRQ, r.n), p.on(prm.OpDestroyTIS, p.tis),
		p.on(prm.OpDeallocTransportDomain, p.domain), p.on(prm.OpDestroyCQ, p.cq.n)} {
		if err != nil {
			t.Error(err)
		}
	}
}
