// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"syscall"
	"testing"

	"purerdma/internal/vmtest"
	"purerdma/verbs"
)

// TestVMCreateQP creates QPs of each type, with and without sizes, and compares them with the
// kernel's attributes.
func TestVMCreateQP(t *testing.T) {
	h := vmtest.Hosts(t, 1)[0]
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		t.Run(typ.String(), func(t *testing.T) {
			for _, c := range []verbs.QPCap{{}, {SendWR: 1, RecvWR: 1, SendSGE: 1, RecvSGE: 1, Inline: 1}, {SendWR: 300, RecvWR: 200, SendSGE: 6, RecvSGE: 5, Inline: 80}} {
				e := newEndWith(t, verbs.DefaultHost(), h, verbs.QPConfig{Type: typ, Cap: c})
				if e.qp.Type() != typ || e.qp.State() != verbs.QPReset {
					t.Errorf("Type(), State() = %v, %v, want %v, RESET", e.qp.Type(), e.qp.State(), typ)
				}
				a, err := e.qp.Query()
				if err != nil || a.State != verbs.QPReset {
					t.Fatalf("QP.Query() = %+v, %v, want State QPReset, no error", a, err)
				}
				got := e.qp.Cap()
				if got.SendWR < c.SendWR || got.RecvWR < c.RecvWR || got.SendSGE < c.SendSGE || got.RecvSGE < c.RecvSGE || got.Inline < c.Inline {
					t.Errorf("Cap() = %+v, want at least %+v", got, c)
				}
				if a.Cap.SendWR != got.SendWR || a.Cap.RecvWR != got.RecvWR {
					t.Errorf("Query = capacities %+v, want %+v as in Cap()", a.Cap, got)
				}
			}
		})
	}
	e := newEnd(t, verbs.DefaultHost(), h, verbs.QPCap{})
	for typ := range verbs.QPType(20) {
		want := errors.ErrUnsupported
		switch typ {
		case 0, verbs.RC, verbs.UC, verbs.UD:
			continue
		case verbs.XRCRecv: // the domain is missing, which these devices do not support
			want = syscall.EINVAL
		}
		if _, err := e.pd.CreateQP(verbs.QPConfig{Type: typ}); !errors.Is(err, want) {
			t.Errorf("QP of type %v: PD.CreateQP: error = %v, want %v", typ, err, want)
		}
	}
	if _, err := e.dev.OpenXRCD(nil, 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("OpenXRCD = %v, want ErrUnsupported", err)
	}
	for _, c := range []verbs.QPCap{{SendWR: math.MaxInt32}, {RecvWR: math.MaxInt32}, {SendSGE: math.MaxUint16}, {RecvSGE: math.MaxUint16}, {Inline: 1 << 20}} {
		if _, err := e.pd.CreateQP(verbs.QPConfig{Cap: c}); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("QP with %+v: PD.CreateQP: error = %v, want EINVAL", c, err)
		}
	}
}

// TestVMModifyUD changes the attributes of a datagram QP, and reads them back.
func TestVMModifyUD(t *testing.T) {
	h := vmtest.Hosts(t, 1)[0]
	e := newEndWith(t, verbs.DefaultHost(), h, verbs.QPConfig{Type: verbs.UD})
	query := func() verbs.QPAttr {
		t.Helper()
		a, err := e.qp.Query()
		if err != nil {
			t.Fatalf("QP.Query: %v", err)
		}
		return a
	}
	for _, key := range []uint32{0x123, 0x80000000} { // the second requires a privilege
		modify(t, e.qp, verbs.QPAttr{State: verbs.QPInit, Port: 1, QKey: key}, verbs.QPAttrState|verbs.QPAttrPKeyIndex|verbs.QPAttrPort|verbs.QPAttrQKey)
		if a := query(); a.State != verbs.QPInit || a.QKey != key {
			t.Errorf("Query = %+v, want INIT with Q_Key %#x", a, key)
		}
		modify(t, e.qp, verbs.QPAttr{State: verbs.QPRTR}, verbs.QPAttrState)
		modify(t, e.qp, verbs.QPAttr{State: verbs.QPRTS, SQPSN: 0x45}, verbs.QPAttrState|verbs.QPAttrSQPSN)
		if a := query(); a.State != verbs.QPRTS || a.SQPSN != 0x45 {
			t.Errorf("Query = %+v, want RTS with SQPSN 0x45", a)
		}
		modify(t, e.qp, verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState)
		if a := query(); a.State != verbs.QPReset || e.qp.State() != verbs.QPReset {
			t.Errorf("Query = %+v, State() = %v, want RESET", a, e.qp.State())
		}
	}
}

// TestVMRdAtomic checks that a QP supports the requested number of outstanding READs in each
// direction.
func TestVMRdAtomic(t *testing.T) {
	rt := vmWire(t)
	l, r := newEnd(t, rt.h, rt.a, verbs.QPCap{}), newEnd(t, rt.h, rt.b, verbs.QPCap{})
	l.connectTo(t, r)
	modify(t, r.qp, verbs.QPAttr{State: verbs.QPInit, Port: 1, Access: everything}, verbs.QPAttrState|verbs.QPAttrPKeyIndex|verbs.QPAttrPort|verbs.QPAttrAccess)
	modify(t, r.qp, verbs.QPAttr{State: verbs.QPRTR, PathMTU: verbs.MTU1024, DestQPNum: l.qp.Num(), RQPSN: l.psn(), MaxDestRdAtomic: 12, MinRNRTimer: 12, AH: r.to(l.gid)},
		verbs.QPAttrState|verbs.QPAttrAV|verbs.QPAttrPathMTU|verbs.QPAttrDestQPNum|verbs.QPAttrRQPSN|verbs.QPAttrMaxDestRdAtomic|verbs.QPAttrMinRNRTimer)
	modify(t, r.qp, verbs.QPAttr{State: verbs.QPRTS, Timeout: 14, RetryCount: 7, RNRRetryCount: 7, SQPSN: r.psn(), MaxRdAtomic: 12},
		verbs.QPAttrState|verbs.QPAttrTimeout|verbs.QPAttrRetryCount|verbs.QPAttrRNRRetryCount|verbs.QPAttrSQPSN|verbs.QPAttrMaxRdAtomic)
	if a, err := r.qp.Query(); err != nil || a.MaxRdAtomic < 12 || a.MaxDestRdAtomic < 12 {
		t.Errorf("Query = %+v, %v, want at least 12 READs in each direction", a, err)
	}
}

// ucPair returns two connected ends of type UC.
func (rt *route) ucPair(t *testing.T) (*end, *end) {
	t.Helper()
	l := newEndWith(t, rt.h, rt.a, verbs.QPConfig{Type: verbs.UC, Cap: verbs.QPCap{Inline: 64, SendSGE: 3, RecvSGE: 3}})
	r := newEndWith(t, rt.h, rt.b, verbs.QPConfig{Type: verbs.UC, Cap: verbs.QPCap{Inline: 64, SendSGE: 3, RecvSGE: 3}})
	connect(t, l, r)
	return l, r
}

// TestVMUnreliable sends all supported operations on connections without acknowledgements. The
// sizes are near the packet size, in both directions.
func TestVMUnreliable(t *testing.T) {
	vmRoutes(t, func(t *testing.T, rt *route) {
		a, b := rt.ucPair(t)
		for i, n := range []int{0, 1, 64, 1023, 1024, 1025, 4096, 10000, 30000} {
			l, r := a, b
			if i%2 == 1 {
				l, r = b, a
			}
			data := bytes.Clone(fill(l.buf.Bytes()[:n], byte(i)))
			clear(r.buf.Bytes())
			at := func(off int) uint64 { return r.buf.Addr() + uint64(off) }
			r.recv(t, verbs.RecvWR{ID: 10, SGList: []verbs.SGE{r.buf.Slice(0, n/2), r.buf.Slice(n/2, n-n/2)}}, verbs.RecvWR{ID: 11, SGList: []verbs.SGE{r.buf.Slice(0, n)}}, verbs.RecvWR{ID: 12})
			wrs := []verbs.SendWR{
				{ID: 1, Opcode: verbs.OpSend, SGList: []verbs.SGE{l.buf.Slice(0, n/3), l.buf.Slice(n/3, n-n/3)}},
				{ID: 2, Opcode: verbs.OpSendImm, ImmData: uint32(i), SGList: []verbs.SGE{l.buf.Slice(0, n)}},
				{ID: 3, Opcode: verbs.OpWrite, RemoteAddr: at(30000), RKey: r.buf.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, n)}},
				{ID: 4, Opcode: verbs.OpWriteImm, ImmData: 1 << 31, RemoteAddr: at(60000), RKey: r.buf.RKey(), InlineData: data[:min(n, 64)]},
			}
			for i := range wrs {
				wrs[i].Flags = verbs.SendSignaled
			}
			l.send(t, wrs...)
			l.ok(t, 4)
			got := r.ok(t, 3)
			if got[10].ByteLen != uint32(n) || got[11].ByteLen != uint32(n) || got[11].ImmData != uint32(i) || got[12].ImmData != 1<<31 || got[12].Opcode != verbs.WCRecvWriteImm {
				t.Errorf("receives of %d bytes = %+v, want the same length and the immediate data", n, got)
			}
			mem := r.buf.Bytes()
			if !bytes.Equal(mem[:n], data) || !bytes.Equal(mem[30000:30000+n], data) || !bytes.Equal(mem[60000:60000+min(n, 64)], data[:min(n, 64)]) {
				t.Errorf("%d bytes: the received bytes differ", n)
			}
		}
		for _, wr := range []verbs.SendWR{
			{Opcode: verbs.OpRead, RemoteAddr: b.buf.Addr(), RKey: b.buf.RKey(), SGList: []verbs.SGE{a.buf.Slice(0, 8)}},
			{Opcode: verbs.OpFetchAdd, RemoteAddr: b.buf.Addr(), RKey: b.buf.RKey(), SGList: []verbs.SGE{a.buf.Slice(0, 8)}},
		} {
			if n, err := a.qp.PostSend([]verbs.SendWR{wr}); n != 0 || !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%v on UC: QP.PostSend = %d, %v, want 0, errors.ErrUnsupported", wr.Opcode, n, err)
			}
		}
	})
}

// TestVMStates posts in states that accept no requests, and posts more receives than the queue
// can hold. When the QP becomes ready, no refused request may be in the queues. The requests
// that are posted then must complete in order, and no others.
func TestVMStates(t *testing.T) {
	h := vmtest.Hosts(t, 1)[0]
	for _, typ := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		t.Run(typ.String(), func(t *testing.T) {
			cfg := verbs.QPConfig{Type: typ, Cap: verbs.QPCap{RecvWR: 4}}
			e, peer := newEndWith(t, verbs.DefaultHost(), h, cfg), newEndWith(t, verbs.DefaultHost(), h, cfg)
			message := func(from, to *end, n uint32) verbs.SendWR {
				wr := verbs.SendWR{ID: uint64(n), Opcode: verbs.OpSendImm, ImmData: n}
				if typ == verbs.UD {
					wr.AH, wr.RemoteQPN, wr.RemoteQKey = from.ah(t, from.to(to.gid)), to.qp.Num(), qkey
				}
				return wr
			}
			room := []verbs.SGE{e.buf.Slice(0, 100)} // includes room for a GRH, which datagrams have
			const refused = 1
			refuses := func(want verbs.QPState) {
				t.Helper()
				wr := message(e, peer, refused)
				wr.Flags = verbs.SendSignaled
				var state *verbs.QPStateError
				if n, err := e.qp.PostSend([]verbs.SendWR{wr}); n != 0 || !errors.As(err, &state) || state.State != want {
					t.Errorf("PostSend in %v = %d, %v, want 0 and a QPStateError", want, n, err)
				}
			}
			var state *verbs.QPStateError
			if n, err := e.qp.PostRecv([]verbs.RecvWR{{ID: refused, SGList: room}}); n != 0 || !errors.As(err, &state) || state.State != verbs.QPReset {
				t.Errorf("PostRecv in RESET = %d, %v, want 0 and a QPStateError", n, err)
			}
			refuses(verbs.QPReset)
			e.init(t)
			refuses(verbs.QPInit)
			recvs := make([]verbs.RecvWR, e.qp.Cap().RecvWR+1)
			for i := range recvs {
				recvs[i] = verbs.RecvWR{ID: uint64(100 + i), SGList: room}
			}
			fit := len(recvs) - 1
			if n, err := e.qp.PostRecv(recvs); n != fit || !errors.Is(err, verbs.ErrFull) {
				t.Fatalf("PostRecv = %d, %v, want %d, ErrFull", n, err, fit)
			}
			e.rtr(t, peer)
			refuses(verbs.QPRTR)
			e.rts(t)
			peer.connectTo(t, e)

			at := []verbs.SGE{peer.buf.Slice(0, 100)}
			peer.recv(t, verbs.RecvWR{ID: 10, SGList: at}, verbs.RecvWR{ID: 11, SGList: at})
			later := message(e, peer, 2)
			later.Flags = verbs.SendSignaled
			e.send(t, later)
			if _, ok := e.ok(t, 1)[2]; !ok {
				t.Error("the completed send is not the posted one")
			} else if wc := peer.ok(t, 1)[10]; wc.ImmData != 2 {
				t.Errorf("the peer's receive = %+v, want the message of %+v", wc, later)
			}
			for i := range fit {
				peer.send(t, message(peer, e, uint32(i)))
			}
			for id, wc := range e.ok(t, fit) {
				if id != uint64(100+wc.ImmData) {
					t.Errorf("message of receive %d = %d, want the receive's index", id, wc.ImmData)
				}
			}
			e.recv(t, verbs.RecvWR{ID: 500, SGList: room})
			peer.send(t, message(peer, e, 99))
			if wc, ok := e.ok(t, 1)[500]; !ok || wc.ImmData != 99 {
				t.Errorf("completion of the last receive = %+v, want message 99", wc)
			}
			for _, e := range []*end{e, peer} {
				wcs := make([]verbs.WC, 1)
				if n, err := e.cq.Poll(wcs); n != 0 || err != nil {
					t.Errorf("Poll after the last completion = %+v, %v, want none, nil", wcs[:n], err)
				}
			}
		})
	}
}

// TestVMEmptyMessages sends messages without data, and READs and WRITEs of 0 bytes.
func TestVMEmptyMessages(t *testing.T) {
	vmRoutes(t, func(t *testing.T, rt *route) {
		l, r := rt.pair(t, verbs.QPCap{})
		for i, wr := range []verbs.SendWR{
			{Opcode: verbs.OpRead, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, 0)}},
			{Opcode: verbs.OpWrite, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, 0)}},
			{Opcode: verbs.OpWrite, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey()},
			{Opcode: verbs.OpWrite, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), InlineData: []byte{}},
			{Opcode: verbs.OpSend, SGList: []verbs.SGE{l.buf.Slice(0, 0), l.buf.Slice(5, 0)}},
			{Opcode: verbs.OpSend, InlineData: []byte{}},
			{Opcode: verbs.OpSend},
		} {
			if wr.Opcode == verbs.OpSend {
				r.recv(t, verbs.RecvWR{ID: 7, SGList: []verbs.SGE{r.buf.Slice(0, 10)}})
			}
			wr.ID, wr.Flags = uint64(i), verbs.SendSignaled
			l.send(t, wr)
			if wc := l.ok(t, 1); len(wc) != 1 {
				t.Errorf("completions = %+v, want 1", wc)
			}
			if wr.Opcode == verbs.OpSend {
				if wc := r.ok(t, 1)[7]; wc.ByteLen != 0 {
					t.Errorf("completion of the receive = %+v, want 0 bytes", wc)
				}
			}
		}
		if l.dev.Transport() == verbs.TransportIWARP {
			return // no datagrams on iWARP
		}
		l, r = rt.udPair(t)
		r.recv(t, verbs.RecvWR{ID: 7, SGList: []verbs.SGE{r.buf.Slice(0, 100)}})
		l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, AH: l.ah(t, l.to(r.gid)), RemoteQPN: r.qp.Num(), RemoteQKey: qkey})
		l.ok(t, 1)
		if wc := r.ok(t, 1)[7]; wc.ByteLen != verbs.GRHLen {
			t.Errorf("completion of an empty datagram = %+v, want only a GRH", wc)
		}
	})
}

// TestVMAtomicRights checks that the peer's QP and its memory must both allow atomics, and that
// the keys must be valid. Each violation causes an error status. The same QPs work before.
func TestVMAtomicRights(t *testing.T) {
	for _, op := range []verbs.SendOpcode{verbs.OpFetchAdd, verbs.OpCompareSwap} {
		for what, spoil := range map[string]func(t *testing.T, l, r *end, wr *verbs.SendWR){
			"the QP does not allow it": func(t *testing.T, _, r *end, _ *verbs.SendWR) {
				modify(t, r.qp, verbs.QPAttr{Access: verbs.LocalWrite}, verbs.QPAttrAccess)
			},
			"the memory does not allow it": func(t *testing.T, _, r *end, wr *verbs.SendWR) {
				mr, err := r.pd.Alloc(4096, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite)
				if err != nil {
					t.Fatalf("PD.Alloc: %v", err)
				}
				closer(t, mr)
				wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey()
			},
			"wrong lkey": func(_ *testing.T, _, _ *end, wr *verbs.SendWR) { wr.SGList[0].LKey++ },
			"wrong rkey": func(_ *testing.T, _, _ *end, wr *verbs.SendWR) { wr.RKey++ },
		} {
			t.Run(fmt.Sprint(op, " ", what), func(t *testing.T) {
				l, r := vmWire(t).pair(t, verbs.QPCap{})
				binary.NativeEndian.PutUint64(r.buf.Bytes(), 5)
				wr := verbs.SendWR{ID: 1, Opcode: op, Flags: verbs.SendSignaled, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey(), SGList: []verbs.SGE{l.buf.Slice(0, 8)}, CompareAdd: 5, Swap: 10}
				l.send(t, wr)
				l.ok(t, 1)
				if v := binary.NativeEndian.Uint64(r.buf.Bytes()); v != 10 {
					t.Fatalf("memory after %v = %d, want 10", op, v)
				}
				spoil(t, l, r, &wr)
				l.send(t, wr)
				if wc := l.collect(t, 1)[1]; wc.Err() == nil {
					t.Errorf("completion = %+v, want an error", wc)
				}
				// An invalid lkey may be detected only when the response has arrived.
				if v := binary.NativeEndian.Uint64(r.buf.Bytes()); v != 10 && what != "wrong lkey" {
					t.Errorf("memory after the failed atomic = %d, want 10", v)
				}
			})
		}
	}
}
