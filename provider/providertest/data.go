// SPDX-License-Identifier: Apache-2.0

package providertest

import (
	"bytes"
	"encoding/binary"
	"testing"

	"purerdma/provider"
)

// testSizes sends and writes messages of sizes near the packet size and the page size, from one
// element and from several, and inline.
func (s *Suite) testSizes(t *testing.T) {
	l, r := s.Pair(t, provider.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 3, RecvSGE: s.recvSGE(2), Inline: 32})
	for i, n := range []int{0, 1, 31, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097, 65536, 100_000} {
		data := fill(l.Mem.Bytes[:n], i)
		into := []provider.SGE{r.Mem.sge(64, n/3), r.Mem.sge(64+n/3, n-n/3)}
		if s.recvSGE(2) == 1 {
			into = []provider.SGE{r.Mem.sge(64, n)}
		}
		recv(t, r, provider.RecvWR{ID: uint64(i), SGList: into})
		send(t, l,
			provider.SendWR{Opcode: provider.OpWrite, RemoteAddr: r.Mem.Addr + 128<<10, RKey: r.Mem.RKey, SGList: []provider.SGE{l.Mem.sge(0, n)}},
			provider.SendWR{ID: uint64(i), Opcode: provider.OpSend, Flags: provider.SendSignaled,
				SGList: []provider.SGE{l.Mem.sge(0, n/2), l.Mem.sge(n/2, 0), l.Mem.sge(n/2, n-n/2)}},
		)
		s.ok(t, l, 1)
		if wc := s.ok(t, r, 1)[0]; wc.ID != uint64(i) || int(wc.ByteLen) != n || wc.Opcode != provider.WCRecv {
			t.Fatalf("receive of %d bytes = %+v, want WCRecv of ID %d with the same length", n, wc, i)
		}
		if !bytes.Equal(r.Mem.Bytes[64:64+n], data) {
			t.Fatalf("the receive buffer differs from the %d sent bytes", n)
		}
		if !bytes.Equal(r.Mem.Bytes[128<<10:128<<10+n], data) {
			t.Fatalf("the peer's memory differs from the %d written bytes", n)
		}
		if n > l.QP.Cap().Inline {
			continue
		}
		recv(t, r, provider.RecvWR{SGList: []provider.SGE{r.Mem.sge(0, n)}})
		inline := fill(make([]byte, n), i+100)
		send(t, l, provider.SendWR{Opcode: provider.OpSend, Flags: provider.SendSignaled, InlineData: inline})
		clear(inline)
		s.ok(t, l, 1)
		if wc := s.ok(t, r, 1)[0]; int(wc.ByteLen) != n || !bytes.Equal(r.Mem.Bytes[:n], fill(make([]byte, n), i+100)) {
			t.Fatalf("receive of %d inline bytes = %+v, want the same length and the same bytes", n, wc)
		}
	}
}

// testOperations runs each supported operation once.
func (s *Suite) testOperations(t *testing.T) {
	for _, op := range s.Ops {
		switch op {
		case provider.OpSendInv, provider.OpReadInv, provider.OpLocalInv, provider.OpBindMW, provider.OpFlush:
			continue // need their own keys and access rights
		}
		t.Run(op.String(), func(t *testing.T) {
			l, r := s.Pair(t, provider.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 1, RecvSGE: 1})
			fill(l.Mem.Bytes[:100], 1)
			fill(r.Mem.Bytes[1000:1100], 2)
			word := func(e *End, off int) uint64 { return binary.NativeEndian.Uint64(e.Mem.Bytes[off:]) }
			wr := provider.SendWR{ID: 77, Opcode: op, Flags: provider.SendSignaled, SGList: []provider.SGE{l.Mem.sge(0, 100)},
				RemoteAddr: r.Mem.Addr + 1000, RKey: r.Mem.RKey, ImmData: 0x01020304}
			recv(t, r, provider.RecvWR{ID: 78, SGList: []provider.SGE{r.Mem.sge(1000, 100)}})
			want, takes := provider.WCWrite, false // whether the operation takes a receive
			before := word(r, 1000)
			switch op {
			case provider.OpSend:
				want, takes = provider.WCSend, true
			case provider.OpSendImm:
				want, takes = provider.WCSend, true
			case provider.OpWrite:
			case provider.OpWriteImm:
				takes = true
			case provider.OpRead:
				want = provider.WCRead
			case provider.OpFetchAdd:
				want, wr.SGList, wr.CompareAdd = provider.WCFetchAdd, []provider.SGE{l.Mem.sge(0, 8)}, 5
			case provider.OpCompareSwap:
				want, wr.SGList, wr.CompareAdd, wr.Swap = provider.WCCompareSwap, []provider.SGE{l.Mem.sge(0, 8)}, before, 9
			case provider.OpAtomicWrite:
				want, wr.SGList, wr.InlineData = provider.WCAtomicWrite, nil, []byte("8 bytes.")
			default:
				t.Fatalf("the suite has no test of %v", op)
			}
			send(t, l, wr)
			if wc := s.ok(t, l, 1)[0]; wc.ID != 77 || wc.Opcode != want {
				t.Errorf("completion = %+v, want %v of ID 77", wc, want)
			}
			if takes {
				wc := s.ok(t, r, 1)[0]
				if imm := op == provider.OpSendImm || op == provider.OpWriteImm; wc.ID != 78 || imm != (wc.Flags&provider.WCWithImm != 0) || imm && wc.ImmData != 0x01020304 {
					t.Errorf("completion of the receive = %+v, want ID 78, and immediate data only from %v with it", wc, op)
				}
			}
			switch op {
			case provider.OpFetchAdd:
				if word(l, 0) != before || word(r, 1000) != before+5 {
					t.Errorf("FETCH_ADD returned %#x and stored %#x, want %#x and %#x", word(l, 0), word(r, 1000), before, before+5)
				}
			case provider.OpCompareSwap:
				if word(l, 0) != before || word(r, 1000) != 9 {
					t.Errorf("COMPARE_SWAP returned %#x and stored %#x, want %#x and 9", word(l, 0), word(r, 1000), before)
				}
			case provider.OpAtomicWrite:
				if string(r.Mem.Bytes[1000:1008]) != "8 bytes." {
					t.Errorf("ATOMIC_WRITE stored %q, want \"8 bytes.\"", r.Mem.Bytes[1000:1008])
				}
			default:
				if !s.eventually(func() bool { return bytes.Equal(l.Mem.Bytes[:100], r.Mem.Bytes[1000:1100]) }) {
					t.Errorf("%v: the bytes of both sides differ", op)
				}
			}
		})
	}
}

// testOrder checks that completions come in the order of their requests, and only for requests
// that were to have one.
func (s *Suite) testOrder(t *testing.T) {
	l, r := s.Pair(t, provider.QPCap{SendWR: 64, RecvWR: 64, SendSGE: 1, RecvSGE: 1})
	const rounds, each = 20, 30
	for round := range rounds {
		var sends []provider.SendWR
		var recvs []provider.RecvWR
		for i := range each {
			id := uint64(round*each + i)
			recvs = append(recvs, provider.RecvWR{ID: id, SGList: []provider.SGE{r.Mem.sge(i*64, 64)}})
			wr := provider.SendWR{ID: id, Opcode: provider.OpSend, SGList: []provider.SGE{l.Mem.sge(i*64, i)}}
			if i%3 == 2 {
				wr.Flags = provider.SendSignaled
			}
			sends = append(sends, wr)
		}
		recv(t, r, recvs...)
		send(t, l, sends...)
		for i, wc := range s.ok(t, l, each/3) {
			if wc.ID != uint64(round*each+3*i+2) {
				t.Fatalf("completion %d of round %d = %+v, want ID %d", i, round, wc, round*each+3*i+2)
			}
		}
		for i, wc := range s.ok(t, r, each) {
			if wc.ID != uint64(round*each+i) || int(wc.ByteLen) != i {
				t.Fatalf("receive %d of round %d = %+v, want ID %d with %d bytes", i, round, wc, round*each+i, i)
			}
		}
	}
	if n, err := l.CQ.Poll(make([]provider.WC, 1)); n != 0 || err != nil {
		t.Errorf("Poll after the last completion = %d, %v, want 0, nil", n, err)
	}
}
