// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"errors"
	"fmt"
	"testing"

	"purerdma/test/connectx/prm"
)

// TestAccess uses keys with one error each, on either side.
func TestAccess(t *testing.T) {
	const size = rigMemory
	end := uint64(memoryBase + size)
	without := func(f prm.Field) func(h *host, c []byte) {
		return func(_ *host, c []byte) { f.Set(c, 0) }
	}
	for _, tc := range []struct {
		name   string
		change func(h *host, c []byte) // changes a key created for the case.
		key    uint32                  // is xored to the key.
		addr   uint64                  // 0 for a valid address.
		write  bool                    // whether the operation writes to the memory.
		only   string                  // "here" or "there" to skip the other side
		ok     bool
	}{
		{name: "good", ok: true},
		{name: "good to write", write: true, ok: true},
		{name: "last byte", addr: end - 8, ok: true},
		{name: "index", key: 0x77700},
		{name: "variant", key: 1},
		{name: "beyond the end", addr: end - 7},
		{name: "before the start", addr: memoryBase - 1},
		{name: "beyond its own end", addr: memoryBase + 4096 - 4, change: func(_ *host, c []byte) { prm.MKC.Length.Set(c, 4096) }},
		{name: "around", addr: ^uint64(0) - 3},
		{name: "free", change: func(_ *host, c []byte) { prm.MKC.Free.Set(c, 1) }},
		{name: "other PD", change: func(h *host, c []byte) { prm.MKC.PD.Set(c, uint64(h.object(prm.OpAllocPD))) }},
		{name: "of another QP", change: func(_ *host, c []byte) { prm.MKC.QPN.Set(c, 0x777777) }},
		{name: "no memory", change: func(_ *host, c []byte) { prm.MKC.StartAddr.Set(c, 1<<40); prm.MKC.Length64.Set(c, 1) }},
		{name: "no right to read", only: "there", change: without(prm.MKC.RemoteRead)},
		{name: "no right to write", only: "there", change: without(prm.MKC.RemoteWrite), write: true},
		{name: "no right to read", only: "here", change: without(prm.MKC.LocalRead)},
		{name: "no right to write", only: "here", change: without(prm.MKC.LocalWrite), write: true},
	} {
		// run uses the key on one side, by a WRITE or a READ. Each of them accesses memory on
		// both sides.
		run := func(t *testing.T, here bool) {
			p := newPair(t, prm.ServiceRC, nil)
			h, o := p.b, p.a // owner of the key, and its peer
			if here {
				h, o = o, h
			}
			addr, other := tc.addr, o.alloc(64)
			if addr == 0 {
				addr = h.alloc(64)
			}
			key := h.mkey(func(c []byte) {
				if tc.change != nil {
					tc.change(h, c)
				}
			}) ^ tc.key
			op := uint8(prm.WQEWrite)
			if tc.write == here {
				op = prm.WQERead
			}
			if here {
				p.qa.post(request1(op, signaled, 0).remote(other, o.key).data(8, key, addr))
				want(t, p.qa.send, tc.ok, prm.SyndromeLocalProt)
				return
			}
			p.qa.post(request1(op, signaled, 0).remote(addr, key).data(8, o.key, other))
			want(t, p.qa.send, tc.ok, prm.SyndromeRemoteAccess)
			if !tc.ok {
				p.b.wantEvent(prm.EventCommEst, p.qb.n)
				p.b.wantEvent(prm.EventWQAccess, p.qb.n)
			}
		}
		if tc.only != "there" {
			t.Run("here/"+tc.name, func(t *testing.T) { run(t, true) })
		}
		if tc.only != "here" {
			t.Run("there/"+tc.name, func(t *testing.T) { run(t, false) })
		}
	}
}

// TestPageRights uses pages of a key whose page list entries have other rights than the key.
// The entries of a key without page access have all rights.
func TestPageRights(t *testing.T) {
	for _, tc := range []struct {
		name        string
		without     bool // page access
		flags       uint64
		read, write bool
	}{
		{name: "missing"},
		{name: "read", flags: prm.MTTRead, read: true},
		{name: "write", flags: prm.MTTWrite, write: true},
		{name: "both", flags: prm.MTTRead | prm.MTTWrite, read: true, write: true},
		{name: "no page access", without: true, read: true, write: true},
	} {
		for op, ok := range map[uint8]bool{prm.WQERead: tc.read, prm.WQEWrite: tc.write} {
			t.Run(fmt.Sprintf("%s/%#x", tc.name, op), func(t *testing.T) {
				p := newPair(t, prm.ServiceRC, nil)
				page := p.b.alloc(4096)
				var list []byte
				for _, flags := range []uint64{prm.MTTRead | prm.MTTWrite, tc.flags} {
					list = be.AppendUint64(list, page|flags)
				}
				out := p.b.must(prm.OpCreateMkey, 0x110, list, func(in []byte) {
					c := prm.CreateMkeyIn.Context.Of(in)
					for _, f := range []prm.Field{prm.MKC.LocalRead, prm.MKC.LocalWrite, prm.MKC.RemoteRead, prm.MKC.RemoteWrite} {
						f.Set(c, 1)
					}
					prm.SetMode(c, prm.AccessMTT)
					prm.MKC.QPN.Set(c, prm.AnyQP)
					prm.MKC.PD.Set(c, uint64(p.b.pd))
					prm.MKC.Length.Set(c, 2*4096)
					prm.MKC.LogPageSize.Set(c, 12)
					prm.MKC.TranslationOctwords.Set(c, 1)
					prm.CreateMkeyIn.TranslationOctwordsActual.Set(in, 1)
					if !tc.without {
						prm.CreateMkeyIn.PageAccess.Set(in, 1)
					}
				})
				key := uint32(prm.ObjectOut.Number.Get(out)) << 8
				use := func(addr uint64, ok bool) {
					t.Helper()
					p.qa.post(request1(op, signaled, 0).remote(addr, key).data(8, p.a.key, p.a.alloc(64)))
					want(t, p.qa.send, ok, prm.SyndromeRemoteAccess)
				}
				use(0, true)
				use(4096-4, ok) // crosses from a page with all rights to the next one
			})
		}
	}
}

// want checks for a successful completion, or for one with a syndrome.
func want(t *testing.T, q *testCQ, ok bool, s prm.Syndrome) {
	t.Helper()
	if ok {
		q.want(prm.CQEReq, nil)
		return
	}
	q.want(prm.CQEReqErr, map[*prm.Field]uint64{&prm.CQE.Syndrome: uint64(s)})
}

// wantEvent checks the type and the queue of the next event. It skips events of established
// connections, which come only from QPs in RTR.
func (h *host) wantEvent(typ prm.EventType, n uint32) {
	h.t.Helper()
	v := h.next(h.eq)
	if typ == prm.EventCommEst && (v == nil || prm.EQE.Type.Get(v) != uint64(typ)) {
		if v != nil {
			h.eq.ci-- // not that one
		}
		return
	}
	if v == nil || prm.EQE.Type.Get(v) != uint64(typ) || uint32(prm.EventQPN.Get(prm.EQE.Data.Of(v))) != n {
		h.t.Errorf("event = %x, want type %#x and number %#x", v, typ, n)
	}
}

// TestRights removes rights of a QP's peers.
func TestRights(t *testing.T) {
	for name, tc := range map[string]struct {
		right prm.Field
		wqe   func(p *pair) *wqe
	}{
		"read": {prm.QPC.RemoteRead, func(p *pair) *wqe {
			return request1(prm.WQERead, 0, 0).remote(memoryBase, p.b.key).data(8, p.a.key, memoryBase)
		}},
		"write": {prm.QPC.RemoteWrite, func(p *pair) *wqe {
			return request1(prm.WQEWrite, 0, 0).remote(memoryBase, p.b.key).inline([]byte("x"))
		}},
		"atomic": {prm.QPC.RemoteAtomic, func(p *pair) *wqe {
			return request1(prm.WQEFetchAdd, 0, 0).remote(memoryBase, p.b.key).atomic(1, 0).data(8, p.a.key, memoryBase)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, prm.ServiceRC, func(c []byte) { tc.right.Set(c, 0) })
			p.qa.post(tc.wqe(p))
			want(t, p.qa.send, false, prm.SyndromeRemoteInvalid)
			p.b.wantEvent(prm.EventWQInvalidReq, p.qb.n)
		})
	}
}

// TestReceiveErrors sends messages to receives that cannot take them.
func TestReceiveErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		receive       func(p *pair)
		here, distant prm.Syndrome
	}{
		"too short":   {func(p *pair) { p.qb.receive(p.b.alloc(64), 4) }, prm.SyndromeRemoteInvalid, prm.SyndromeLocalLength},
		"no elements": {func(p *pair) { p.qb.receive() }, prm.SyndromeRemoteInvalid, prm.SyndromeLocalLength},
		"bad key":     {func(p *pair) { p.b.key ^= 1; p.qb.receive(p.b.alloc(64), 64) }, prm.SyndromeRemoteOp, prm.SyndromeLocalProt},
		"bad address": {func(p *pair) { p.qb.receive(1, 64) }, prm.SyndromeRemoteOp, prm.SyndromeLocalProt},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, prm.ServiceRC, nil)
			tc.receive(p)
			p.qb.receive()
			p.qa.post(request1(prm.WQESend, signaled, 0).inline([]byte("too much")), request1(prm.WQESend, signaled, 0).inline(nil))
			want(t, p.qa.send, false, tc.here)
			want(t, p.qa.send, false, prm.SyndromeFlush)
			p.qb.recv.want(prm.CQERespErr, map[*prm.Field]uint64{&prm.CQE.Syndrome: uint64(tc.distant), &prm.CQE.WQECounter: 0})
			p.qb.recv.want(prm.CQERespErr, map[*prm.Field]uint64{&prm.CQE.Syndrome: uint64(prm.SyndromeFlush), &prm.CQE.WQECounter: 1})
			for _, q := range []*testQP{p.qa, p.qb} {
				if s := q.state(); s != prm.QPErr {
					t.Errorf("state of a QP = %d, want error", s)
				}
			}
		})
	}
}

func (q *testQP) state() uint64 {
	out := q.h.must(prm.OpQueryQP, 16, nil, func(in []byte) { prm.QPIn.QPN.Set(in, uint64(q.n)) })
	return prm.QPC.State.Get(prm.QPIn.Context.Of(out))
}

// TestAtomicErrors sends invalid atomics.
func TestAtomicErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		addr uint64
		n    int
		want prm.Syndrome
	}{
		"not aligned": {memoryBase + 4, 8, prm.SyndromeRemoteInvalid},
		"of 4 bytes":  {memoryBase, 4, prm.SyndromeLocalLength},
		"of 16 bytes": {memoryBase, 16, prm.SyndromeLocalLength},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, prm.ServiceRC, nil)
			p.qa.post(request1(prm.WQEFetchAdd, 0, 0).remote(tc.addr, p.b.key).atomic(1, 0).data(tc.n, p.a.key, memoryBase))
			want(t, p.qa.send, false, tc.want)
		})
	}
}

// TestTransitions issues each command in each state.
func TestTransitions(t *testing.T) {
	states := []struct {
		name string
		way  []uint16
	}{
		{"RESET", nil}, {"INIT", []uint16{prm.OpRst2Init}}, {"RTR", []uint16{prm.OpRst2Init, prm.OpInit2RTR}},
		{"RTS", []uint16{prm.OpRst2Init, prm.OpInit2RTR, prm.OpRTR2RTS}}, {"SQD", []uint16{prm.OpRst2Init, prm.OpInit2RTR, prm.OpRTR2RTS}},
		{"ERR", []uint16{prm.Op2Err}},
	}
	good := map[uint16]string{
		prm.OpRst2Init: "RESET", prm.OpInit2Init: "INIT", prm.OpInit2RTR: "INIT", prm.OpRTR2RTS: "RTR", prm.OpRTS2RTS: "RTS",
		prm.OpSQErr2RTS: "", prm.OpSQDRTS: "SQD", prm.Op2Err: "any", prm.Op2Rst: "any",
	}
	h := newHost(t, nil, 1)
	cq := h.cq(4, nil)
	mtu := func(c []byte) { prm.QPC.MTU.Set(c, 3) }
	for _, s := range states {
		for op, from := range good {
			q := h.qp(prm.ServiceRC, cq, cq, nil)
			for _, step := range s.way {
				if err := q.modify(step, mtu); err != nil {
					t.Fatalf("q.modify: %v", err)
				}
			}
			if s.name == "SQD" && !h.d.Drain(q.n) {
				t.Fatal("Drain = false, want true")
			}
			err := q.modify(op, mtu)
			if ok := from == s.name || from == "any"; ok != (err == nil) || !ok && !errors.Is(err, statusError(prm.StatusBadQPState)) {
				t.Errorf("%s of a QP in %s = %v", CommandName(op), s.name, err)
			}
			if err := h.on(prm.OpDestroyQP, q.n); err != nil {
				t.Errorf("h.on(OpDestroyQP): %v", err)
			}
		}
	}
	q := h.qp(prm.ServiceRC, cq, cq, nil)
	if err := q.modify(prm.OpRst2Init, nil); err != nil {
		t.Errorf("q.modify(OpRst2Init): %v", err)
	}
	if err := q.modify(prm.OpInit2RTR, nil); !errors.Is(err, statusError(prm.StatusBadParam)) {
		t.Errorf("INIT2RTR with a path MTU of 0 = %v, want BAD_PARAM", err)
	}
	q.n++
	if err := q.modify(prm.Op2Err, nil); !errors.Is(err, statusError(prm.StatusBadResource)) {
		t.Errorf("2ERR of a missing QP = %v, want BAD_RESOURCE", err)
	}
}
