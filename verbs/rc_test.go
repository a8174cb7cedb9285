// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"purerdma/verbs"
)

func fill(b []byte, seed byte) []byte {
	for i := range b {
		b[i] = byte(i)*31 + seed
	}
	return b
}

func TestSend(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{SendSGE: 4, RecvSGE: 4, Inline: 200})
		r.recv(t,
			verbs.RecvWR{ID: 100, SGList: []verbs.SGE{r.buf.Slice(0, 5000)}},
			verbs.RecvWR{ID: 101, SGList: []verbs.SGE{r.buf.Slice(8192, 100), r.buf.Slice(9000, 200), r.buf.Slice(10000, 4)}},
			verbs.RecvWR{ID: 102, SGList: []verbs.SGE{r.buf.Slice(12000, 200)}},
			verbs.RecvWR{ID: 103},
		)
		data := fill(l.buf.Bytes(), 7)
		inline := fill(make([]byte, 200), 99)
		l.send(t,
			verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{l.buf.Slice(0, 5000)}},
			verbs.SendWR{ID: 2, Opcode: verbs.OpSendImm, Flags: verbs.SendSignaled | verbs.SendSolicited, ImmData: 0xdeadbeef,
				SGList: []verbs.SGE{l.buf.Slice(20000, 100), l.buf.Slice(30000, 50), l.buf.Slice(40000, 151), l.buf.Slice(50000, 3)}},
			verbs.SendWR{ID: 3, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, InlineData: inline},
			verbs.SendWR{ID: 4, Opcode: verbs.OpSend, Flags: verbs.SendSignaled},
		)
		clear(inline) // the program's again
		got := l.ok(t, 4)
		if got[1].Opcode != verbs.WCSend || got[1].QPNum != l.qp.Num() {
			t.Errorf("completion of the send = %+v, want WCSend of QP %#x", got[1], l.qp.Num())
		}
		rgot := r.ok(t, 4)
		if wc := rgot[100]; wc.Opcode != verbs.WCRecv || wc.ByteLen != 5000 || wc.QPNum != r.qp.Num() || wc.Flags&verbs.WCWithImm != 0 {
			t.Errorf("completion of receive 100 = %+v, want 5000 bytes without immediate data", wc)
		}
		if wc := rgot[101]; wc.ByteLen != 304 || wc.Flags&verbs.WCWithImm == 0 || wc.ImmData != 0xdeadbeef {
			t.Errorf("completion of receive 101 = %+v, want 304 bytes with immediate data 0xdeadbeef", wc)
		}
		if wc := rgot[103]; wc.ByteLen != 0 {
			t.Errorf("completion of the empty message = %+v, want 0 bytes", wc)
		}
		if !bytes.Equal(r.buf.Bytes()[:5000], data[:5000]) {
			t.Error("the bytes of message 1 differ")
		}
		var sent, received []byte
		for _, p := range [][2]int{{20000, 100}, {30000, 50}, {40000, 151}, {50000, 3}} {
			sent = append(sent, data[p[0]:p[0]+p[1]]...)
		}
		for _, p := range [][2]int{{8192, 100}, {9000, 200}, {10000, 4}} {
			received = append(received, r.buf.Bytes()[p[0]:p[0]+p[1]]...)
		}
		if !bytes.Equal(sent, received) {
			t.Error("the bytes of the scattered message differ")
		}
		if !bytes.Equal(r.buf.Bytes()[12000:12200], fill(make([]byte, 200), 99)) {
			t.Error("the bytes of the inline message differ")
		}
	})
}

func TestRemote(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{Inline: 64})
		fill(l.buf.Bytes(), 3)
		fill(r.buf.Bytes()[32768:], 55)
		r.recv(t, verbs.RecvWR{ID: 100})
		at := func(off int) uint64 { return r.buf.Addr() + uint64(off) }
		key := r.buf.RKey()
		binary.NativeEndian.PutUint64(r.buf.Bytes()[65528:], 1000)
		l.send(t,
			verbs.SendWR{ID: 1, Opcode: verbs.OpWrite, RemoteAddr: at(100), RKey: key, SGList: []verbs.SGE{l.buf.Slice(0, 3000)}},
			verbs.SendWR{ID: 2, Opcode: verbs.OpWrite, RemoteAddr: at(5000), RKey: key, InlineData: []byte("inline into the peer")},
			verbs.SendWR{ID: 3, Opcode: verbs.OpWriteImm, RemoteAddr: at(6000), RKey: key, ImmData: 42, SGList: []verbs.SGE{l.buf.Slice(10, 10)}},
			verbs.SendWR{ID: 4, Opcode: verbs.OpRead, Flags: verbs.SendSignaled, RemoteAddr: at(32768), RKey: key,
				SGList: []verbs.SGE{l.buf.Slice(16384, 4000), l.buf.Slice(24000, 1000)}},
			verbs.SendWR{ID: 5, Opcode: verbs.OpFetchAdd, Flags: verbs.SendSignaled, RemoteAddr: at(65528), RKey: key, CompareAdd: 234, SGList: []verbs.SGE{l.buf.Slice(40000, 8)}},
			verbs.SendWR{ID: 6, Opcode: verbs.OpCompareSwap, Flags: verbs.SendSignaled, RemoteAddr: at(65528), RKey: key, CompareAdd: 1234, Swap: 7, SGList: []verbs.SGE{l.buf.Slice(40008, 8)}},
			verbs.SendWR{ID: 7, Opcode: verbs.OpCompareSwap, Flags: verbs.SendSignaled | verbs.SendFence, RemoteAddr: at(65528), RKey: key, CompareAdd: 1234, Swap: 8, SGList: []verbs.SGE{l.buf.Slice(40016, 8)}},
		)
		got := l.ok(t, 4)
		if got[4].Opcode != verbs.WCRead || got[5].Opcode != verbs.WCFetchAdd || got[6].Opcode != verbs.WCCompareSwap {
			t.Errorf("completions = %+v, want READ, FETCH_ADD and COMPARE_SWAP", got)
		}
		if wc := r.ok(t, 1)[100]; wc.Opcode != verbs.WCRecvWriteImm || wc.ImmData != 42 || wc.ByteLen != 10 {
			t.Errorf("completion of the receive = %+v, want 10 bytes of a WRITE with immediate data 42", wc)
		}
		L, R := l.buf.Bytes(), r.buf.Bytes()
		if !bytes.Equal(R[100:3100], L[:3000]) || string(R[5000:5020]) != "inline into the peer" || !bytes.Equal(R[6000:6010], L[10:20]) {
			t.Error("the written bytes differ")
		}
		if !bytes.Equal(L[16384:20384], R[32768:36768]) || !bytes.Equal(L[24000:25000], R[36768:37768]) {
			t.Error("the read bytes differ")
		}
		for i, want := range []uint64{1000, 1234, 7} {
			if v := binary.NativeEndian.Uint64(L[40000+8*i:]); v != want {
				t.Errorf("atomic %d returned %d, want %d", i, v, want)
			}
		}
		if v := binary.NativeEndian.Uint64(R[65528:]); v != 7 {
			t.Errorf("the peer's memory after the atomics = %d, want 7", v)
		}
	})
}

func TestQuery(t *testing.T) {
	routes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		a, err := l.qp.Query()
		if err != nil {
			t.Fatalf("QP.Query: %v", err)
		}
		if a.State != verbs.QPRTS || a.DestQPNum != r.qp.Num() || a.SQPSN != l.psn() || a.AH.GRH.DGID != r.gid || a.PathMTU != verbs.MTU1024 {
			t.Errorf("Query = %+v, want RTS with the attributes of the connection", a)
		}
		if c := l.qp.Cap(); c.SendWR < 128 || c.RecvWR < 128 || c.SendSGE < 2 || c.RecvSGE < 2 || c.Inline < 32 {
			t.Errorf("Cap() of a default QP = %+v, want at least 128 requests, 2 elements and 32 bytes inline", c)
		}
	})
}
