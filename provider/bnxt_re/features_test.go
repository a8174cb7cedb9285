// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre

import (
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"syscall"
	"testing"

	"purerdma/provider"
)

// holder is the owner of an address handle.
type holder struct{ a provider.AH }

func (h *holder) ProviderAH() provider.AH { return h.a }

// TestDatagrams sends datagrams between QPs of type UD.
func TestDatagrams(t *testing.T) {
	for name, chip := range chips {
		r := newRig(t, chip)
		var ends [2]*end
		for i := range ends {
			ends[i] = r.make(t, provider.QPConfig{Type: provider.UD, Cap: provider.QPCap{SendWR: 8, RecvWR: 8, SendSGE: 2, RecvSGE: 2, Inline: 32}})
			ends[i].ready()
		}
		l, p := ends[0], ends[1]
		l.dev.peer, p.dev.peer = p.dev, l.dev
		h := &holder{}
		for i := range 2 {
			var err error
			if h.a, err = r.ctx.CreateAH(&provider.AHConfig{PD: r.pd, Attr: provider.AHAttr{Global: true}}); err != nil {
				t.Fatalf("Context.CreateAH: %v", err)
			}
			if got, want := h.a.(*ah).num, uint32(0x7701+i); got != want {
				t.Errorf("number of the AH = %#x, want %#x", got, want)
			}
		}
		b, addr, mr := r.memory(t, 4096)
		wr := provider.SendWR{ID: 1, Opcode: provider.OpSendImm, Flags: provider.SendSignaled, ImmData: 9, AH: h, RemoteQPN: 0x123456, RemoteQKey: 0x89abcdef, InlineData: []byte("datagram")}
		for i := range 20 {
			if n, err := p.q.PostRecv([]provider.RecvWR{{ID: 2, SGList: []provider.SGE{{Addr: addr, Length: 64, LKey: mr.LKey()}}}}); n != 1 || err != nil {
				t.Fatalf("PostRecv = %d, %v, want 1, nil", n, err)
			}
			at := l.q.sq.at.slot
			if n, err := l.q.PostSend([]provider.SendWR{wr}); n != 1 || err != nil {
				t.Fatalf("PostSend = %d, %v, want 1, nil", n, err)
			}
			w := l.dev.sq[at*16:]
			if qp, av, key := binary.LittleEndian.Uint32(w[16:]), binary.LittleEndian.Uint32(w[20:]), binary.LittleEndian.Uint64(w[8:]); qp != 0x123456 || av != 0x7702 || key != 0x89abcdef00000008 {
				t.Fatalf("%s: destination = %#x, %#x, %#x, want QP 0x123456, AH 0x7702, and the key with the length", name, qp, av, key)
			}
			r.device.run()
			if got := l.poll(2); len(got) != 1 || got[0].Status != provider.WCSuccess {
				t.Fatalf("%s: completions = %+v, want one success", name, got)
			}
			want := provider.WC{ID: 2, Opcode: provider.WCRecv, QPNum: p.q.num, ByteLen: 48, ImmData: 9, SrcQP: 0x894567, Flags: provider.WCGRH | provider.WCWithImm}
			if got := p.poll(2); len(got) != 1 || got[0] != want || string(b[40:48]) != "datagram" {
				t.Fatalf("%s: datagram %d = %+v with %q, want %+v", name, i, got, b[40:48], want)
			}
		}
		for what, tc := range map[string]struct {
			change func(*provider.SendWR)
			want   error
		}{
			"without AH":     {func(w *provider.SendWR) { w.AH = nil }, syscall.EINVAL},
			"with another's": {func(w *provider.SendWR) { w.AH = &holder{struct{ provider.AH }{}} }, syscall.EINVAL},
			"closed AH":      {func(w *provider.SendWR) { w.AH = &holder{} }, net.ErrClosed},
			"QP of 25 bits":  {func(w *provider.SendWR) { w.RemoteQPN = 1 << 24 }, syscall.EINVAL},
			"WRITE":          {func(w *provider.SendWR) { w.Opcode = provider.OpWrite }, errors.ErrUnsupported},
			"SEND_WITH_INV":  {func(w *provider.SendWR) { w.Opcode = provider.OpSendInv }, errors.ErrUnsupported},
		} {
			bad := wr
			tc.change(&bad)
			if n, err := l.q.PostSend([]provider.SendWR{bad}); n != 0 || !errors.Is(err, tc.want) {
				t.Errorf("%s: PostSend %s = %d, %v, want 0, %v", name, what, n, err, tc.want)
			}
		}
		if err := h.a.Close(); err != nil {
			t.Errorf("AH.Close: %v", err)
		}
	}
}

// TestStall posts so many datagrams that the queue would stall on chips of generation P4.
func TestStall(t *testing.T) {
	for chip, want := range map[string]int{"P4": 2, "P5": 0} {
		r := newRig(t, chips[chip])
		e := r.make(t, provider.QPConfig{Type: provider.UD, Cap: provider.QPCap{SendWR: 64}})
		e.ready()
		h := &holder{&ah{}}
		e.q.sq.unstalled = stallRequests - 5
		wrs := slices.Repeat([]provider.SendWR{{Opcode: provider.OpSend, AH: h, Flags: provider.SendSignaled}}, 6)
		moves := len(r.moved)
		post := func() {
			if n, err := e.q.PostSend(wrs); n != 6 || err != nil {
				t.Fatalf("PostSend = %d, %v, want 6, nil", n, err)
			}
			e.dev.sendDone(0, int(e.q.sq.at.index))
			e.poll(9)
		}
		post()
		e.q.sq.unstalled = max(e.q.sq.unstalled, stallRequests-6)
		post()
		post()
		if got := len(r.moved) - moves; got != want || want > 0 && r.moved[moves] != provider.QPRTS {
			t.Errorf("%s: moves of the QP = %v, want %d to RTS", chip, r.moved[moves:], want)
		}
	}
}

// TestSRQ completes the receives of an SRQ in another order.
func TestSRQ(t *testing.T) {
	for name, chip := range chips {
		r := newRig(t, chip)
		var dropped []uint64
		s, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: 7, MaxSGE: 2, Limit: 2, Dropped: func(id uint64) { dropped = append(dropped, id) }})
		if err != nil {
			t.Fatalf("Context.CreateSRQ: %v", err)
		}
		d := r.device.srqs[s.Handle()]
		d.p = s.(*srq)
		most := s.Attr().MaxWR
		if a := s.Attr(); a.MaxSGE != 2 || most < 7 {
			t.Errorf("%s: SRQ.Attr() = %+v, want 7 receives of 2 elements", name, a)
		}
		l, p := r.connected(t, provider.QPCap{SendWR: 16}), r.make(t, provider.QPConfig{SRQ: s, Cap: provider.QPCap{SendWR: 4}})
		p.ready()
		l.dev.peer, p.dev.peer = p.dev, l.dev
		if n, err := p.q.PostRecv(make([]provider.RecvWR, 1)); n != 0 || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: QP.PostRecv = %d, %v, want 0, EINVAL", name, n, err)
		}
		id := uint64(0)
		post := func(n int) (int, error) {
			wrs := make([]provider.RecvWR, n)
			for i := range wrs {
				wrs[i].ID = id + uint64(i)
			}
			n, err := s.PostRecv(wrs)
			id += uint64(n)
			return n, err
		}
		if n, err := post(most + 1); n != most || !errors.Is(err, provider.ErrFull) {
			t.Errorf("%s: SRQ.PostRecv = %d, %v, want %d, ErrFull", name, n, err, most)
		}
		if n, err := s.PostRecv([]provider.RecvWR{{SGList: make([]provider.SGE, 3)}}); n != 0 || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: SRQ.PostRecv of 3 elements = %d, %v, want 0, EINVAL", name, n, err)
		}
		next := uint64(0)
		for range 30 {
			l.send(5)
			r.device.run()
			l.poll(9)
			if got := p.poll(9); len(got) != 1 || got[0].ID != next || got[0].QPNum != p.q.num {
				t.Fatalf("%s: completions = %+v, want ID %d", name, got, next)
			}
			next++
			if n, err := post(1); n != 1 || err != nil {
				t.Fatalf("%s: SRQ.PostRecv = %d, %v, want 1, nil", name, n, err)
			}
		}
		// The oldest and the third receive complete out of order.
		tag := func(slot int) uint32 { return binary.LittleEndian.Uint32(d.ring[(d.ci+slot)%(most+1)*srqSize+8:]) }
		a, b := tag(0), tag(2)
		p.dev.recvDone(0, 0, 0, 0, b)
		p.dev.recvDone(4, 0, 0, 0, a)
		if got := p.poll(9); !slices.Equal(ids(got), []uint64{next + 2, next}) || got[1].Status != provider.WCLocQPOpErr {
			t.Errorf("%s: completions = %+v, want %d and a failed %d", name, got, next+2, next)
		}
		if n, err := post(3); n != 2 || !errors.Is(err, provider.ErrFull) {
			t.Errorf("%s: SRQ.PostRecv = %d, %v, want 2, ErrFull", name, n, err)
		}
		// Receives whose completions are dropped.
		p.dev.recvDone(statusFlushed, 0, 0, 0, tag(1))
		p.poll(9)
		p.dev.recvDone(0, 0, 0, 0, tag(3))
		p.move(provider.QPReset)
		if !slices.Equal(dropped, []uint64{next + 1, next + 3}) {
			t.Errorf("%s: dropped IDs = %v, want %d and %d", name, dropped, next+1, next+3)
		}
		// A tag that is not posted.
		p.ready()
		p.dev.recvDone(0, 0, 0, 0, tag(3))
		if got := p.poll(9); len(got) != 0 || p.c.skipped.Load() != 1 {
			t.Errorf("%s: completions = %+v, %d skipped, want none and 1", name, got, p.c.skipped.Load())
		}
		eventually(t, "a move to ERR", func() bool { return p.q.State() == provider.QPErr })
		if err := s.Close(); err == nil {
			t.Errorf("%s: Close of an SRQ with a QP succeeded", name)
		}
		if got, err := s.Query(); err != nil || got.Limit != 77 || got.MaxWR != most {
			t.Errorf("%s: SRQ.Query = %+v, %v, want the limit 77", name, got, err)
		}
		if err := p.q.Close(); err != nil {
			t.Fatalf("QP.Close: %v", err)
		}
		for range 2 {
			if err := s.Close(); err != nil {
				t.Fatalf("SRQ.Close: %v", err)
			}
		}
		if _, err := s.Query(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: Query of a closed SRQ = %v, want net.ErrClosed", name, err)
		}
		if err := s.Modify(&provider.SRQAttr{Limit: 1}, provider.SRQAttrLimit); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: Modify of a closed SRQ = %v, want net.ErrClosed", name, err)
		}
	}
}

// TestSRQLimit sets limits. The adapter gets one when more receives are posted, once.
func TestSRQLimit(t *testing.T) {
	r := newRig(t, chips["P7"])
	s, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: 20})
	if err != nil {
		t.Fatalf("Context.CreateSRQ: %v", err)
	}
	defer s.Close()
	for _, limit := range []int{-1, s.Attr().MaxWR + 1} {
		if err := s.Modify(&provider.SRQAttr{Limit: limit}, provider.SRQAttrLimit); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Modify of the limit to %d = %v, want EINVAL", limit, err)
		}
	}
	if err := s.Modify(&provider.SRQAttr{MaxWR: 30}, provider.SRQAttrMaxWR); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Modify of the size = %v, want ErrUnsupported", err)
	}
	if err := s.Modify(&provider.SRQAttr{Limit: 3}, 0); err != nil || len(r.limits) != 0 {
		t.Errorf("Modify of nothing = %v, limits %v, want nil without a command", err, r.limits)
	}
	if err := s.Modify(&provider.SRQAttr{Limit: 3}, provider.SRQAttrLimit); err != nil || !slices.Equal(r.limits, []uint32{3}) {
		t.Errorf("Modify of the limit = %v, limits of the kernel %v, want nil, [3]", err, r.limits)
	}
	for i := range 6 {
		s.PostRecv(make([]provider.RecvWR, 1))
		if armed := r.register()>>60 == bellSRQArm; armed != (i == 3) {
			t.Errorf("doorbell after receive %d = %#x, armed %v, want %v", i, r.register(), armed, i == 3)
		}
	}
}

// TestInvalidatedKey sends a SEND_WITH_INV. The completion of the receive has the key.
func TestInvalidatedKey(t *testing.T) {
	r := newRig(t, chips["P7"])
	l, p := r.pair(t, provider.QPCap{SendWR: 4, RecvWR: 4})
	p.recv(1)
	if n, err := l.q.PostSend([]provider.SendWR{{Opcode: provider.OpSendInv, Flags: provider.SendSignaled, InvalidateRKey: 0x01020304}}); n != 1 || err != nil {
		t.Fatalf("PostSend = %d, %v, want 1, nil", n, err)
	}
	r.device.run()
	want := provider.WC{ID: 1, Opcode: provider.WCRecv, QPNum: p.q.num, Flags: provider.WCWithInv, InvalidatedRKey: 0x01020304}
	if got := p.poll(2); len(got) != 1 || got[0] != want {
		t.Errorf("completions = %+v, want %+v", got, want)
	}
}

// TestQuery queries a QP, and changes its rate.
func TestQuery(t *testing.T) {
	r := newRig(t, chips["P7"])
	e := r.connected(t, provider.QPCap{SendWR: 4})
	got, err := e.q.Query()
	if err != nil || got.PKeyIndex != 7 || got.MaxRdAtomic != 3 || got.Cap != e.q.Cap() {
		t.Errorf("QP.Query = %+v, %v, want P_Key index 7 and the QP's capacities", got, err)
	}
	if err := e.q.Modify(&provider.QPAttr{RateLimit: 123}, provider.QPAttrRateLimit); err != nil || !slices.Equal(r.rates, []uint32{123}) {
		t.Errorf("Modify of the rate = %v, rates of the kernel %v, want nil, [123]", err, r.rates)
	}
	if got, want := r.ctx.PacketCaps(), (provider.PacketCaps{RateMin: 10, RateMax: 200, RateQPTypes: 4}); got != want {
		t.Errorf("PacketCaps() = %+v, want %+v", got, want)
	}
	if got := newRig(t, chips["P5"]).ctx.PacketCaps(); got != (provider.PacketCaps{}) {
		t.Errorf("PacketCaps() without rates = %+v, want zeros", got)
	}
	if err := e.q.Close(); err != nil {
		t.Fatalf("QP.Close: %v", err)
	}
	e.q.SetState(provider.QPRTS)
	if _, err := e.q.PostSend(make([]provider.SendWR, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("PostSend of a closed QP = %v, want net.ErrClosed", err)
	}
}

// TestCQWithoutPD makes a CQ before any protection domain. The kernel has the doorbells only with one.
func TestCQWithoutPD(t *testing.T) {
	r := newRig(t, chips["P7"])
	other := &rig{kernel: newKernel(t, chips["P7"])}
	if err := other.open(); err != nil {
		t.Fatalf("rig.open: %v", err)
	}
	t.Cleanup(func() { other.f.Close(); other.ctx.Close() })
	c, err := other.ctx.CreateCQ(&provider.CQConfig{Entries: 5})
	if err != nil {
		t.Fatalf("Context.CreateCQ: %v", err)
	}
	if err := c.Arm(false); err != nil || other.register() == 0 {
		t.Errorf("CQ.Arm = %v, doorbell %#x, want nil and a doorbell", err, other.register())
	}
	if err := c.Close(); err != nil {
		t.Errorf("CQ.Close: %v", err)
	}
	if _, err := r.ctx.AllocPD(); err != nil || r.pds != 2 {
		t.Errorf("AllocPD = %v, %d PDs, want nil, 2", err, r.pds)
	}
}
