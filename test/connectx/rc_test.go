// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"bytes"
	"encoding/binary"
	"testing"

	"purerdma/test/connectx/prm"
)

// TestRC executes each operation once, and checks memory and completions.
func TestRC(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	src, dst := p.a.alloc(8192), p.b.alloc(8192)
	payload := p.a.bytes(src, 5000)
	for i := range payload {
		payload[i] = byte(i * 7)
	}

	p.qb.receive(dst, 100, dst+200, 6000)
	p.qa.post(request1(prm.WQESendImm, signaled|1<<1, 0xcafe).data(5000, p.a.key, src))
	p.qa.send.want(prm.CQEReq, map[*prm.Field]uint64{&prm.CQE.SendOpcode: prm.WQESendImm, &prm.CQE.QPN: uint64(p.qa.n), &prm.CQE.WQECounter: 0, &prm.CQE.UserIndex: 0x77})
	p.qb.recv.want(prm.CQERespImm, map[*prm.Field]uint64{&prm.CQE.Imm: 0xcafe, &prm.CQE.ByteCount: 5000, &prm.CQE.QPN: uint64(p.qb.n), &prm.CQE.Solicited: 1, &prm.CQE.WQECounter: 0})
	if got := p.b.bytes(dst, 8192); !bytes.Equal(got[:100], payload[:100]) || !bytes.Equal(got[200:5100], payload[100:5000]) || got[100] != 0 {
		t.Error("SEND delivered other data")
	}

	// WRITE from pieces, unsignaled, then with immediate data.
	p.qb.receive()
	p.qa.post(request1(prm.WQEWrite, 0, 0).remote(dst+4096, p.b.key).data(10, p.a.key, src).data(20, p.a.key, src+50),
		request1(prm.WQEWriteImm, signaled, 7).remote(dst+5000, p.b.key).inline([]byte("inline data")))
	p.qa.send.want(prm.CQEReq, map[*prm.Field]uint64{&prm.CQE.SendOpcode: prm.WQEWriteImm, &prm.CQE.WQECounter: 2})
	p.qb.recv.want(prm.CQERespWrite, map[*prm.Field]uint64{&prm.CQE.Imm: 7, &prm.CQE.ByteCount: 11})
	if got := p.b.bytes(dst+4096, 1024); !bytes.Equal(got[:10], payload[:10]) || !bytes.Equal(got[10:30], payload[50:70]) || string(got[904:915]) != "inline data" {
		t.Errorf("WRITE delivered %x", got[:40])
	}

	p.qa.post(request1(prm.WQERead, signaled, 0).remote(dst+5000, p.b.key).data(6, p.a.key, src+6000).data(5, p.a.key, src+7000))
	p.qa.send.want(prm.CQEReq, map[*prm.Field]uint64{&prm.CQE.SendOpcode: prm.WQERead, &prm.CQE.ByteCount: 11})
	if string(p.a.bytes(src+6000, 6)) != "inline" || string(p.a.bytes(src+7000, 5)) != " data" {
		t.Error("READ returned other data")
	}

	word := p.b.bytes(dst+512, 8)
	ne := binary.NativeEndian
	ne.PutUint64(word, 40)
	p.qa.post(request1(prm.WQEFetchAdd, signaled, 0).remote(dst+512, p.b.key).atomic(2, 0).data(8, p.a.key, src),
		request1(prm.WQECompare, signaled, 0).remote(dst+512, p.b.key).atomic(99, 42).data(8, p.a.key, src+8),
		request1(prm.WQECompare, signaled, 0).remote(dst+512, p.b.key).atomic(1, 42).data(8, p.a.key, src+16))
	for range 3 {
		p.qa.send.want(prm.CQEReq, map[*prm.Field]uint64{&prm.CQE.ByteCount: 8})
	}
	if a := p.a.bytes(src, 24); ne.Uint64(word) != 99 || ne.Uint64(a) != 40 || ne.Uint64(a[8:]) != 42 || ne.Uint64(a[16:]) != 99 {
		t.Errorf("memory after atomics = %d, results %x", ne.Uint64(word), a)
	}
	p.qa.send.empty()
	p.qb.recv.empty()
	p.qb.send.empty()
	out := p.b.must(prm.OpQueryQP, 16, nil, func(in []byte) { prm.QPIn.QPN.Set(in, uint64(p.qb.n)) })
	// 5 packets of 1024 bytes, and one packet for each other message.
	if c := prm.QPIn.Context.Of(out); prm.QPC.State.Get(c) != prm.QPRTS || prm.QPC.NextRecvPSN.Get(c) != (0xfffff0+5+6)&psnMask {
		t.Errorf("QUERY_QP = state %d, PSN %#x", prm.QPC.State.Get(c), prm.QPC.NextRecvPSN.Get(c))
	}
}

// TestWrap posts more requests than the ring has, some of them across its end.
func TestWrap(t *testing.T) {
	p := newPair(t, prm.ServiceRC, nil)
	p.a.d.cfg.Trace, p.b.d.cfg.Trace = nil, nil
	dst := p.b.alloc(4096)
	for i := range 3000 {
		text := bytes.Repeat([]byte{byte(i)}, i%300)
		p.qb.receive(dst, 4096)
		p.qa.post(request1(prm.WQESend, signaled, 0).inline(text))
		p.qa.send.want(prm.CQEReq, nil)
		p.qb.recv.want(prm.CQERespSend, map[*prm.Field]uint64{&prm.CQE.ByteCount: uint64(len(text))})
		if !bytes.Equal(p.b.bytes(dst, len(text)), text) {
			t.Fatalf("message %d = %x", i, p.b.bytes(dst, len(text)))
		}
	}
}
