// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"purerdma/test/connectx/prm"
)

// TestUC sends without answers. Lost messages and messages without a receive remain lost.
func TestUC(t *testing.T) {
	p := newPair(t, prm.ServiceUC, nil)
	dst := p.b.alloc(64)
	p.lose(1, Lost, sends)
	for _, text := range []string{"lost", "came"} {
		p.qb.receive(dst, 32)
		p.qa.post(request1(prm.WQESend, signaled, 0).inline([]byte(text)))
		p.qa.send.want(prm.CQEReq, nil)
	}
	p.qb.recv.want(prm.CQERespSend, map[*prm.Field]uint64{&prm.CQE.ByteCount: 4, &prm.CQE.WQECounter: 0})
	p.qb.recv.empty()
	if string(p.b.bytes(dst, 4)) != "came" {
		t.Error("another message arrived")
	}
	p.qa.post(request1(prm.WQEWrite, signaled, 0).remote(dst, p.b.key).inline([]byte("written")))
	p.qa.send.want(prm.CQEReq, nil)
	if string(p.b.bytes(dst, 7)) != "written" {
		t.Error("WRITE transferred other data")
	}
	p.a.tolerant = true
	p.qa.post(request1(prm.WQERead, signaled, 0).remote(dst, p.b.key).data(8, p.a.key, memoryBase))
	want(t, p.qa.send, false, prm.SyndromeLocalQPOp)
}

// TestUD sends datagrams and checks header, sender and key.
func TestUD(t *testing.T) {
	p := newPair(t, prm.ServiceUD, nil)
	dst := p.b.alloc(256)
	p.qb.receive(dst, 256)
	p.qa.post(request1(prm.WQESend, signaled, 0).av(p.b.gid, p.qb.n, 0x11).inline([]byte("datagram")))
	p.qa.send.want(prm.CQEReq, nil)
	p.qb.recv.want(prm.CQERespSend, map[*prm.Field]uint64{&prm.CQE.ByteCount: 48, &prm.CQE.RemoteQPN: uint64(p.qa.n), &prm.CQE.GRH: 1, &prm.CQE.L3Type: l3IPv4, &prm.CQE.Imm: 0xffff})
	ip := p.b.bytes(dst+20, 20)
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(be.Uint16(ip[i:]))
	}
	if string(p.b.bytes(dst+40, 8)) != "datagram" || ip[0] != 0x45 || ip[8] != 64 || !bytes.Equal(ip[12:16], p.a.gid[12:]) || !bytes.Equal(ip[16:], p.b.gid[12:]) ||
		sum&0xffff+sum>>16 != 0xffff || be.Uint16(ip[2:]) != 20+8+24+8 {
		t.Errorf("received %x", p.b.bytes(dst, 48))
	}
	// With immediate data, and with the QP's own key.
	p.qb.receive(dst, 256)
	p.qa.post(request1(prm.WQESendImm, signaled, 0xabc).av(p.b.gid, p.qb.n, 1<<31).inline([]byte("x")))
	p.qa.send.want(prm.CQEReq, nil)
	p.qb.recv.want(prm.CQERespImm, map[*prm.Field]uint64{&prm.CQE.Imm: 0xabc})

	for name, w := range map[string]*wqe{
		"another key":  request1(prm.WQESend, signaled, 0).av(p.b.gid, p.qb.n, 0x12).inline([]byte("x")),
		"another QP":   request1(prm.WQESend, signaled, 0).av(p.b.gid, p.qb.n+9, 0x11).inline([]byte("x")),
		"another host": request1(prm.WQESend, signaled, 0).av([16]byte{1}, p.qb.n, 0x11).inline([]byte("x")),
	} {
		p.qb.receive(dst, 256)
		p.qa.post(w)
		p.qa.send.want(prm.CQEReq, nil)
		if e := p.qb.recv.poll(); e != nil {
			t.Errorf("a datagram to %s arrived", name)
		}
	}
	src := p.a.alloc(8192)
	p.qa.post(request1(prm.WQESend, signaled, 0).av(p.b.gid, p.qb.n, 0x11).data(4097, p.a.key, src))
	want(t, p.qa.send, false, prm.SyndromeLocalLength)
}

// TestDelayUnreliable delays a message of a service without acknowledgements. It must arrive once, also if the sender
// changes its memory before.
func TestDelayUnreliable(t *testing.T) {
	for name, service := range map[string]uint64{"UC": prm.ServiceUC, "UD": prm.ServiceUD} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, service, nil)
			p.a.d.fabric.OnPacket(delayOnce(10 * time.Millisecond))
			dst, src := p.b.alloc(256), p.a.alloc(64)
			copy(p.a.bytes(src, 4), "late")
			header := 0
			w := request1(prm.WQESend, signaled, 0)
			if service == prm.ServiceUD {
				header = grhLen
				w.av(p.b.gid, p.qb.n, 0x11)
			}
			p.qb.receive(dst, 256)
			p.locked(func() { // no timer runs
				p.qa.postLocked(w.data(4, p.a.key, src))
				p.qb.recv.empty()
				if service == prm.ServiceUD { // the request has completed
					p.qa.send.want(prm.CQEReq, nil)
					copy(p.a.bytes(src, 4), "over")
				}
			})
			e := p.completion(p.qb.recv)
			if n := prm.CQE.ByteCount.Get(e); n != uint64(header+4) {
				t.Errorf("a message of %d bytes arrived, want %d", n, header+4)
			}
			p.locked(func() {
				if got := string(p.b.bytes(dst+uint64(header), 4)); got != "late" {
					t.Errorf("%q arrived, want what was sent", got)
				}
				p.qb.recv.empty()
				if service == prm.ServiceUC {
					p.qa.send.want(prm.CQEReq, nil)
				}
			})
		})
	}
}

// delayOnce delays the first message.
func delayOnce(long time.Duration) func(*Packet) (Fate, time.Duration) {
	n := 0
	return func(*Packet) (Fate, time.Duration) {
		if n++; n > 1 {
			return Arrives, 0
		}
		return Arrives, long
	}
}

// TestQP1 sends to the QP with number 1, which every port has, and from such a QP.
func TestQP1(t *testing.T) {
	f := NewFabric()
	a, b := newHost(t, f, 1), newHost(t, f, 2)
	ud := a.qp(prm.ServiceUD, a.cq(4, nil), a.cq(4, nil), nil)
	gsi := b.qp(prm.ServiceQP1, b.cq(4, nil), b.cq(4, nil), nil)
	key := func(c []byte) { prm.QPC.QKey.Set(c, 0x80010000); prm.QPC.DETHSourceQPN.Set(c, 1) }
	ud.connect(0, b.gid, key)
	gsi.connect(0, a.gid, key)
	dst := b.alloc(256)
	gsi.receive(dst, 256)
	ud.post(request1(prm.WQESend, signaled, 0).av(b.gid, 1, 0x80010000).inline([]byte("MAD")))
	gsi.recv.want(prm.CQERespSend, map[*prm.Field]uint64{&prm.CQE.RemoteQPN: 1, &prm.CQE.Imm: 0xffff})
}

// TestMulticastFlush sends inline data to two QPs of its own device. The first QP fails, and
// its posted receives are flushed. The second QP must still get the data.
func TestMulticastFlush(t *testing.T) {
	h := newHost(t, nil, 1)
	group := [16]byte{0xff, 0x0e, 15: 9}
	var qps []*testQP
	for i := range 3 {
		q := h.qp(prm.ServiceUD, h.cq(4, nil), h.cq(4, nil), nil)
		q.connect(0, h.gid, nil)
		if qps = append(qps, q); i == 0 {
			continue
		}
		h.must(prm.OpAttachMCG, 32, nil, func(in []byte) {
			prm.MCGIn.QPN.Set(in, uint64(q.n))
			copy(prm.MCGIn.GID.Of(in), group[:])
		})
	}
	qps[1].receive(h.alloc(8), 8) // too short for the data
	qps[1].put(request1(prm.WQESend, signaled, 0).av(h.gid, 1, 0x11).inline([]byte("wrong")))
	be.PutUint32(h.bytes(qps[1].record+4, 4), uint32(qps[1].pi))
	buf := h.alloc(256)
	qps[2].receive(buf, 256)
	qps[0].post(request1(prm.WQESend, signaled, 0).av(group, multicastQPN, 0x11).inline([]byte("right")))
	qps[1].send.want(prm.CQEReqErr, map[*prm.Field]uint64{&prm.CQE.Syndrome: uint64(prm.SyndromeFlush)})
	qps[2].recv.want(prm.CQERespSend, nil)
	if got := string(h.bytes(buf+grhLen, 5)); got != "right" {
		t.Errorf("received %q, want right", got)
	}
}

// TestMulticast sends to all QPs of a group.
func TestMulticast(t *testing.T) {
	f := NewFabric()
	group := [16]byte{0xff, 0x0e, 15: 9}
	var hosts []*host
	var qps []*testQP
	for i := range 3 {
		h := newHost(t, f, byte(i+1))
		q := h.qp(prm.ServiceUD, h.cq(4, nil), h.cq(4, nil), nil)
		q.connect(0, h.gid, nil)
		q.receive(h.alloc(256), 256)
		hosts, qps = append(hosts, h), append(qps, q)
	}
	join := func(i int, op uint16) error {
		_, err := hosts[i].command(op, 32, nil, func(in []byte) {
			prm.MCGIn.QPN.Set(in, uint64(qps[i].n))
			copy(prm.MCGIn.GID.Of(in), group[:])
		})
		return err
	}
	for _, i := range []int{1, 2, 2} { // a second join has no effect
		if err := join(i, prm.OpAttachMCG); err != nil {
			t.Fatalf("join(OpAttachMCG): %v", err)
		}
	}
	if err := hosts[2].on(prm.OpDestroyQP, qps[2].n); !errors.Is(err, statusError(prm.StatusResourceBusy)) {
		t.Errorf("DESTROY_QP of a group's QP = %v, want RESOURCE_BUSY", err)
	}
	qps[0].post(request1(prm.WQESend, signaled, 0).av(group, multicastQPN, 0x11).inline([]byte("all")))
	qps[0].recv.empty()
	for _, q := range qps[1:] {
		q.recv.want(prm.CQERespSend, map[*prm.Field]uint64{&prm.CQE.ByteCount: 43})
		q.recv.empty()
	}
	if err := join(2, prm.OpDetachMCG); err != nil {
		t.Errorf("join(OpDetachMCG): %v", err)
	}
	if err := join(2, prm.OpDetachMCG); !errors.Is(err, statusError(prm.StatusBadParam)) {
		t.Errorf("second detach = %v, want BAD_PARAM", err)
	}
	qps[1].receive(hosts[1].alloc(256), 256)
	qps[2].receive(hosts[2].alloc(256), 256)
	qps[0].post(request1(prm.WQESend, signaled, 0).av(group, multicastQPN, 0x11).inline([]byte("some")))
	qps[1].recv.want(prm.CQERespSend, nil)
	qps[2].recv.empty()
}

// testSRQ is a shared receive queue of the rig, with 8 receives of 64 bytes.
type testSRQ struct {
	h           *host
	n           uint32
	buf, record uint64
	next        uint16 // index of the next receive to post
	posted      uint16
}

func (h *host) srq() *testSRQ {
	h.t.Helper()
	s := &testSRQ{h: h, buf: h.alloc(512), record: h.alloc(8)}
	out := h.must(prm.OpCreateRMP, 0x110, pages(s.buf, 512), func(in []byte) {
		w := prm.RMPC.WQ.Of(prm.RMPIn.Context.Of(in))
		prm.WQ.PD.Set(w, uint64(h.pd))
		prm.WQ.LogSize.Set(w, 3)
		prm.WQ.LogStride.Set(w, 6)
		prm.WQ.DBRAddr.Set(w, s.record)
	})
	s.n = uint32(prm.ObjectOut.Number.Get(out))
	return s
}

func (h *host) xrcSRQ(x uint32, cq *testCQ, index uint32) *testSRQ {
	h.t.Helper()
	s := &testSRQ{h: h, buf: h.alloc(512), record: h.alloc(8)}
	out := h.must(prm.OpCreateXRCSRQ, 0x110, pages(s.buf, 512), func(in []byte) {
		c := prm.XRCSRQIn.Context.Of(in)
		prm.XRCSRQC.PD.Set(c, uint64(h.pd))
		prm.XRCSRQC.XRCD.Set(c, uint64(x))
		prm.XRCSRQC.CQN.Set(c, uint64(cq.n))
		prm.XRCSRQC.UserIndex.Set(c, uint64(index))
		prm.XRCSRQC.LogSize.Set(c, 3)
		prm.XRCSRQC.LogStride.Set(c, 2)
		prm.XRCSRQC.DBRHigh.Set(c, s.record>>32)
		prm.XRCSRQC.DBRLow.Set(c, s.record>>2)
	})
	s.n = uint32(prm.ObjectOut.Number.Get(out))
	return s
}

// receive posts a receive at the next index. then is the index of its successor.
func (s *testSRQ) receive(then uint16, pieces ...uint64) {
	w := s.h.bytes(s.buf+uint64(s.next)*64, 64)
	putReceive(w[16:], s.h.key, pieces)
	be.PutUint16(w[2:], then)
	s.next = then
	s.posted++
	be.PutUint32(s.h.bytes(s.record, 4), uint32(s.posted))
}

// setLimit arms the event.
func (s *testSRQ) setLimit(n uint64) error {
	_, err := s.h.command(prm.OpModifyRMP, 0x110, nil, func(in []byte) {
		prm.RMPIn.RMPN.Set(in, uint64(s.n))
		prm.RMPIn.Bitmask.Set(in, prm.ModifyRMPLWM)
		prm.WQ.LWM.Set(prm.RMPC.WQ.Of(prm.RMPIn.Context.Of(in)), n)
	})
	return err
}

// TestSRQ uses shared receives, posted out of order, until their number is below the limit.
func TestSRQ(t *testing.T) {
	f := NewFabric()
	a, b := newHost(t, f, 1), newHost(t, f, 2)
	s := b.srq()
	shared := func(c []byte) { prm.QPC.RQType.Set(c, prm.RQShared); prm.QPC.SRQN.Set(c, uint64(s.n)) }
	send, recv := a.cq(4, nil), b.cq(4, nil)
	var qas, qbs []*testQP
	for range 2 {
		qa, qb := a.qp(prm.ServiceRC, send, a.cq(4, nil), nil), b.qp(prm.ServiceRC, b.cq(4, nil), recv, shared)
		qa.connect(qb.n, b.gid, nil)
		qb.connect(qa.n, a.gid, nil)
		qas, qbs = append(qas, qa), append(qbs, qb)
	}
	dst := b.alloc(512)
	order := []uint16{0, 5, 2, 7, 1}
	for i := range 4 {
		s.receive(order[i+1], dst+uint64(order[i])*64, 64)
	}
	if err := s.setLimit(3); err != nil {
		t.Fatalf("s.setLimit: %v", err)
	}
	if err := s.setLimit(9); !errors.Is(err, statusError(prm.StatusBadParam)) {
		t.Errorf("limit above the size = %v, want BAD_PARAM", err)
	}
	if err := b.on(prm.OpDestroyRMP, s.n); !errors.Is(err, statusError(prm.StatusResourceBusy)) {
		t.Errorf("DESTROY_RMP of an SRQ with QPs = %v, want RESOURCE_BUSY", err)
	}
	if err := b.on(prm.OpDestroyXRCSRQ, s.n); !errors.Is(err, statusError(prm.StatusBadResource)) {
		t.Errorf("DESTROY_XRC_SRQ of another kind = %v, want BAD_RESOURCE", err)
	}
	for i, at := range order[:3] {
		if i == 2 {
			b.wantEvent(prm.EventSRQLimit, s.n)
		}
		qas[i%2].post(request1(prm.WQESend, signaled, 0).inline([]byte{byte(10 + i)}))
		send.want(prm.CQEReq, nil)
		recv.want(prm.CQERespSend, map[*prm.Field]uint64{&prm.CQE.QPN: uint64(qbs[i%2].n), &prm.CQE.WQECounter: uint64(at)})
		if got := b.bytes(dst+uint64(at)*64, 1)[0]; got != byte(10+i) {
			t.Errorf("receive %d contains %d", at, got)
		}
	}
	if v := b.next(b.eq); v != nil {
		t.Errorf("event = %x, want none", v)
	}
	b.must(prm.Op2Err, 16, nil, func(in []byte) { prm.QPIn.QPN.Set(in, uint64(qbs[0].n)) })
	b.wantEvent(prm.EventSRQLastWQE, qbs[0].n)
	recv.empty() // receives of the SRQ are not flushed
}

// TestXRC sends over one connection to two shared receive queues of a domain, and to one of
// another domain.
func TestXRC(t *testing.T) {
	f := NewFabric()
	a, b := newHost(t, f, 1), newHost(t, f, 2)
	x, other := b.object(prm.OpAllocXRCD), b.object(prm.OpAllocXRCD)
	ini := a.qp(prm.ServiceXRC, a.cq(4, nil), a.cq(4, nil), func(c []byte) {
		prm.QPC.RQType.Set(c, prm.RQNone)
		prm.QPC.XRCD.Set(c, uint64(a.object(prm.OpAllocXRCD)))
	})
	tgt := b.qp(prm.ServiceXRC, b.cq(4, nil), b.cq(4, nil), func(c []byte) {
		prm.QPC.RQType.Set(c, prm.RQNone)
		prm.QPC.NoSQ.Set(c, 1)
		prm.QPC.XRCD.Set(c, uint64(x))
	})
	ini.connect(tgt.n, b.gid, nil)
	tgt.connect(ini.n, a.gid, nil)
	dst := b.alloc(256)
	to := func(s *testSRQ) *wqe {
		w := request1(prm.WQESend, signaled, 0)
		w.b = append(be.AppendUint32(w.b, s.n), make([]byte, 12)...)
		return w.inline([]byte("to an SRQ"))
	}
	for i := range uint32(2) {
		cq := b.cq(4, nil)
		s := b.xrcSRQ(x, cq, 0x500+i)
		s.receive(1, dst, 64)
		ini.post(to(s))
		ini.send.want(prm.CQEReq, nil)
		cq.want(prm.CQERespSend, map[*prm.Field]uint64{&prm.CQE.UserIndex: uint64(0x500 + i), &prm.CQE.ByteCount: 9})
	}
	s := b.xrcSRQ(other, b.cq(4, nil), 0x600)
	s.receive(1, dst, 64)
	ini.post(to(s))
	want(t, ini.send, false, prm.SyndromeRemoteInvalid)
}

// TestDC sends from one initiator to two targets, and with a wrong key.
func TestDC(t *testing.T) {
	f := NewFabric()
	a, b := newHost(t, f, 1), newHost(t, f, 2)
	const key = 0xdc0000000001
	s := b.srq()
	cq := b.cq(4, nil)
	make1 := func(index uint64) uint32 {
		out := b.must(prm.OpCreateDCT, 0x50, nil, func(in []byte) {
			c := prm.DCTIn.Context.Of(in)
			prm.DCTC.PD.Set(c, uint64(b.pd))
			prm.DCTC.CQN.Set(c, uint64(cq.n))
			prm.DCTC.SRQN.Set(c, uint64(s.n))
			prm.DCTC.AccessKey.Set(c, key)
			prm.DCTC.UserIndex.Set(c, index)
			prm.DCTC.RemoteWrite.Set(c, 1)
		})
		return uint32(prm.ObjectOut.Number.Get(out))
	}
	dcts := []uint32{make1(0x700), make1(0x701)}
	dci := a.qp(prm.ServiceDCI, a.cq(4, nil), a.cq(4, nil), func(c []byte) { prm.QPC.RQType.Set(c, prm.RQNone) })
	dci.connect(0, [16]byte{}, nil)
	dst := b.alloc(256)
	for i, n := range dcts {
		s.receive(uint16(i+1), dst, 64)
		dci.post(request1(prm.WQESend, signaled, 0).av(b.gid, n, key).inline([]byte("to a DCT")),
			request1(prm.WQEWrite, signaled, 0).av(b.gid, n, key).remote(dst+100, b.key).inline([]byte{byte(i + 1)}))
		dci.send.want(prm.CQEReq, nil)
		dci.send.want(prm.CQEReq, nil)
		cq.want(prm.CQERespSend, map[*prm.Field]uint64{&prm.CQE.UserIndex: uint64(0x700 + i), &prm.CQE.QPN: uint64(n), &prm.CQE.ByteCount: 8})
		if b.bytes(dst+100, 1)[0] != byte(i+1) {
			t.Error("WRITE transferred other data")
		}
	}
	if err := b.on(prm.OpDrainDCT, dcts[0]); err != nil {
		t.Errorf("b.on(OpDrainDCT): %v", err)
	}
	if v := b.next(b.eq); v == nil || prm.EQE.Type.Get(v) != uint64(prm.EventDCTDrained) {
		t.Errorf("event = %x, want DCT drained", v)
	}
	p := &pair{a: a, b: b}
	dci.post(request1(prm.WQEWrite, signaled, 0).av(b.gid, dcts[1], key+1).remote(dst, b.key).inline([]byte("x")))
	if s := prm.CQE.Syndrome.Get(p.completion(dci.send)); s != uint64(prm.SyndromeRetryExceeded) {
		t.Errorf("syndrome = %#x, want retry exceeded", s)
	}
	out := b.must(prm.OpQueryDCT, 16, nil, func(in []byte) { prm.ObjectIn.Number.Set(in, uint64(dcts[1])) })
	if n := prm.DCTC.Violations.Get(prm.DCTIn.Context.Of(out)); n == 0 {
		t.Error("QUERY_DCT returned no violations of the key")
	}
	for _, n := range dcts {
		if err := b.on(prm.OpDestroyDCT, n); err != nil {
			t.Errorf("b.on(OpDestroyDCT): %v", err)
		}
	}
}
