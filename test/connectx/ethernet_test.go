// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"
	"slices"
	"testing"

	"purerdma/test/connectx/prm"
	"purerdma/test/ethernet"
)

func TestFrames(t *testing.T) {
	f := NewFabric()
	a, b := newPortOn(t, f, 1), newPortOn(t, f, 2)
	r := b.rq(16, nil)
	b.all(b.tir(nil, r))
	for i, n := range []int{1, 2, 18, 19, 100, 1400} {
		for _, proto := range []byte{ethernet.UDP, ethernet.TCP} {
			for _, inline := range []int{0, 2, 14, 18, 19, 42} {
				data := bytes.Repeat([]byte{byte(i + 1)}, n)
				frame := a.frame(b, proto, data)
				a.post(prm.WQESend, checksums, frame[:inline], frame[inline:])
				a.sent(0)
				got, e := r.next()
				h, _ := ethernet.Parse(got)
				if len(got) != len(frame) || !bytes.Equal(got[:16], frame[:16]) || !bytes.HasSuffix(got, data) {
					t.Fatalf("%d bytes of protocol %d, %d inline: got %x, want %x", n, proto, inline, got, frame)
				}
				if ok3, ok4 := h.Verify(); !ok3 || !ok4 || !prm.EthernetCQE.L3OK.Is(e) || !prm.EthernetCQE.L4OK.Is(e) {
					t.Errorf("%d bytes of protocol %d: checksums %v, %v, completion %x", n, proto, ok3, ok4, e)
				}
				if c := prm.EthernetCQE.Checksum.Get(e); uint16(c) != ethernet.Fold(ethernet.Sum(got[14:], 0)) {
					t.Errorf("%d bytes of protocol %d: sum %#x", n, proto, c)
				}
				r.post(1)
			}
		}
	}
	// Data may also be inline, after the headers or without headers.
	for n := range 64 {
		frame := a.frame(b, ethernet.UDP, bytes.Repeat([]byte{7}, n))
		a.postInline(frame, len(frame))
		a.sent(0)
		if got, _ := r.next(); !bytes.Equal(got, frame) {
			t.Fatalf("%d bytes inline: got %x, want %x", n, got, frame)
		}
		r.post(1)
	}
	// Frames to others, without a receive, and to the sender itself are not received.
	frame := a.frame(b, ethernet.UDP, []byte("x"))
	frame[5]++
	a.post(prm.WQESend, nil, nil, frame)
	frame = a.frame(a, ethernet.UDP, []byte("x"))
	a.post(prm.WQESend, nil, nil, frame)
	if got, _ := r.next(); got != nil {
		t.Errorf("received a frame to another address: %x", got)
	}
	a.sent(0)
	a.sent(0)
	if c := a.d.fw.port.frames.sent[unicastFrames]; c.frames != 74+64 {
		t.Errorf("sent counter = %d frames", c.frames)
	}
	if c := b.d.fw.port.frames.received[unicastFrames]; c.frames != 72+64 {
		t.Errorf("received counter = %d frames", c.frames)
	}
}

// TestFrameLost checks that a frame without a receive is counted. Frames that are too large or
// arrive while the port is down are lost.
func TestFrameLost(t *testing.T) {
	f := NewFabric()
	a, b := newPortOn(t, f, 1), newPortOn(t, f, 2)
	counter := uint64(b.object(prm.OpAllocQCounter))
	r := b.rq(1, func(c []byte) { prm.RQC.Counters.Set(c, counter) })
	b.all(b.tir(nil, r))
	send := func(n int) {
		t.Helper()
		a.post(prm.WQESend, nil, nil, a.frame(b, ethernet.UDP, make([]byte, n)))
		a.sent(0)
	}
	send(firstPiece + secondPiece)
	b.d.SetPort(false)
	send(1)
	b.d.SetPort(true)
	if got, _ := r.next(); got != nil {
		t.Errorf("received %x, want no frame", got)
	}
	send(10)
	send(11)
	if got, _ := r.next(); len(got) != 52 {
		t.Errorf("received %x, want 52 bytes", got)
	}
	out := b.must(prm.OpQueryQCounter, 0x20, nil, func(in []byte) { prm.QueryQCounterIn.ID.Set(in, counter) })
	if n := prm.QueryQCounterOut.OutOfBuffer.Get(out); n != 1 {
		t.Errorf("out-of-buffer counter = %d, want 1", n)
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
	frame := a.frame(b, ethernet.TCP, data)
	a.post(prm.WQELSO, func(e []byte) { checksums(e); prm.EthernetSeg.MSS.Set(e, 1000) }, frame[:54], frame[54:])
	a.sent(0)
	var all []byte
	for i := range 4 {
		got, e := r.next()
		if got == nil {
			t.Fatalf("segment %d did not arrive", i)
		}
		h, _ := ethernet.Parse(got)
		if !prm.EthernetCQE.L3OK.Is(e) || !prm.EthernetCQE.L4OK.Is(e) || len(h.IP) != len(got)-14 {
			t.Errorf("segment %d: completion %x, %d bytes of IP in a frame of %d", i, e, len(h.IP), len(got))
		}
		if id, seq := be.Uint16(h.IP[4:]), be.Uint32(h.L4[4:]); int(id) != 0x1234+i || int(seq) != 0x100+1000*i {
			t.Errorf("segment %d: ID %#x, sequence %#x", i, id, seq)
		}
		want := byte(0)
		if i == 0 {
			want |= ethernet.CWR
		}
		if i == 3 {
			want |= ethernet.FIN | ethernet.PSH
		}
		if h.L4[13] != want {
			t.Errorf("segment %d: flags %#x, want %#x", i, h.L4[13], want)
		}
		all = append(all, h.L4[20:]...)
	}
	if got, _ := r.next(); got != nil || !bytes.Equal(all, data) {
		t.Errorf("received %d bytes in all, or other data", len(all))
	}
	// IPv6, and invalid headers.
	ip6 := slices.Concat(b.d.mac[:], a.d.mac[:], []byte{0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, ethernet.TCP, 64}, make([]byte, 32), frame[34:54])
	got := ethernet.CutTCP(slices.Concat(ip6, data), len(ip6), 3000)
	if len(got) != 2 || be.Uint16(got[0][18:]) != 3020 || be.Uint16(got[1][18:]) != 520 {
		t.Errorf("cutTCP of IPv6 = %d segments, want 2", len(got))
	}
	for n := range 54 {
		if ethernet.CutTCP(frame, n, 1000) != nil {
			t.Errorf("cutTCP with %d bytes of headers returned segments", n)
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
	plain := a.frame(b, ethernet.UDP, []byte("tagged"))
	for _, vlan := range []byte{0, 5, 6, 7} {
		frame := plain
		if vlan > 0 {
			frame = slices.Concat(plain[:12], []byte{0x81, 0, 0x60, vlan}, plain[12:])
		}
		a.post(prm.WQESend, nil, frame[:18], frame[18:])
		a.sent(0)
	}
	if got, e := strip.next(); !bytes.Equal(got, plain) || !prm.CQE.VLANStripped.Is(e) || prm.CQE.VLANTag.Get(e) != 0x6005 {
		t.Errorf("frame with stripped VLAN tag = %x, completion %x", got, e)
	}
	if got, e := keep.next(); len(got) != len(plain)+4 || prm.CQE.VLANStripped.Is(e) || uint16(prm.EthernetCQE.Checksum.Get(e)) != ethernet.Fold(ethernet.Sum(plain[14:], 0)) {
		t.Errorf("frame with VLAN tag = %x, completion %x", got, e)
	}
	for _, r := range b.rqs {
		if got, _ := r.next(); got != nil {
			t.Errorf("received an additional frame: %x", got)
		}
	}
}

// TestRSS checks that frames of one flow go to one queue, and frames of many flows to all
// queues.
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
		frame := a.frame(b, ethernet.UDP, []byte("rss"))
		be.PutUint16(frame[34:], 1000+port)
		last := -2
		for range 2 {
			a.post(prm.WQESend, checksums, nil, frame)
			a.sent(0)
			n := where()
			if n < 0 || last >= 0 && n != last {
				t.Fatalf("frames of port %d went to queue %d, then %d", port, last, n)
			}
			last = n
		}
		hit[last]++
	}
	if len(hit) != 4 {
		t.Errorf("64 flows went to queues %v, want 4", hit)
	}
}
