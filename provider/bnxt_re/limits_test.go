// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"purerdma/provider"
)

// TestMostRequests fills queues of several sizes with the largest requests.
func TestMostRequests(t *testing.T) {
	for name, chip := range chips {
		r := newRig(t, chip)
		for _, n := range []int{1, 7, 127, 128, 1000, 16384} {
			e := r.connected(t, provider.QPCap{SendWR: n, RecvWR: n, SendSGE: 4, RecvSGE: 3})
			c := e.q.Cap()
			if c.SendWR < n || c.RecvWR < n || c.SendSGE < 4 || c.RecvSGE < 3 {
				t.Fatalf("%s: QP.Cap() = %+v, want at least %d requests of 4 and receives of 3 elements", name, c, n)
			}
			sends := slices.Repeat([]provider.SendWR{{Opcode: provider.OpSend, SGList: make([]provider.SGE, c.SendSGE)}}, c.SendWR+1)
			if got, err := e.q.PostSend(sends); got != c.SendWR || !errors.Is(err, provider.ErrFull) {
				t.Errorf("%s: PostSend = %d, %v, want %d, ErrFull", name, got, err, c.SendWR)
			}
			// The device keeps room for its own requests.
			if s := &e.q.sq; s.at.slot+reserved*s.most >= s.depth {
				t.Errorf("%s: %d requests use %d slots of %d, want %d free", name, c.SendWR, s.at.slot, s.depth, reserved*s.most)
			}
			recvs := slices.Repeat([]provider.RecvWR{{SGList: make([]provider.SGE, c.RecvSGE)}}, c.RecvWR+1)
			if got, err := e.q.PostRecv(recvs); got != c.RecvWR || !errors.Is(err, provider.ErrFull) {
				t.Errorf("%s: PostRecv = %d, %v, want %d, ErrFull", name, got, err, c.RecvWR)
			}
		}
	}
}

// TestMostCompletions fills a CQ with as many completions as Entries returns, after each number of polled ones. The
// device must not find the CQ full, as it gets the consumer index from doorbells.
func TestMostCompletions(t *testing.T) {
	for _, chip := range []string{"P4", "P7"} {
		r := newRig(t, chips[chip])
		for _, n := range []int{1, 2, 64, 65, 40000, 65535} {
			c, err := r.ctx.CreateCQ(&provider.CQConfig{Entries: n})
			if err != nil {
				t.Fatalf("Context.CreateCQ: %v", err)
			}
			q := c.(*cq)
			if got := c.Entries(); got < n {
				t.Errorf("%s: Entries of a CQ of %d = %d, want at least as many", chip, n, got)
			}
			// The number of entries that the device does not know to be free is below half.
			unknown := 0
			if q.deferred {
				unknown = int(q.depth)/2 - 1
			}
			if got, most := c.Entries(), int(q.depth)-unknown; got > most {
				t.Errorf("%s: Entries of a CQ of %d = %d, want at most %d", chip, n, got, most)
			}
			if err := c.Close(); err != nil {
				t.Errorf("CQ.Close: %v", err)
			}
		}
	}
}

// TestLengths checks the length of requests with several elements.
func TestLengths(t *testing.T) {
	e := newRig(t, chips["P7"]).connected(t, provider.QPCap{SendWR: 4, SendSGE: 2})
	s := &e.q.sq
	for _, tc := range []struct {
		lengths []uint32
		packets uint32
		err     error
	}{
		{nil, 1, nil}, {[]uint32{0}, 1, nil}, {[]uint32{1}, 1, nil}, {[]uint32{1024}, 1, nil}, {[]uint32{1025}, 2, nil}, {[]uint32{1024, 1024}, 2, nil},
		{[]uint32{1 << 30}, 1 << 20, nil}, {[]uint32{1<<30 - 1, 1}, 1 << 20, nil}, {[]uint32{1<<30 + 1}, 0, syscall.EMSGSIZE}, {[]uint32{1 << 30, 1}, 0, syscall.EMSGSIZE},
		{[]uint32{1<<32 - 1, 1<<32 - 1}, 0, syscall.EMSGSIZE},
	} {
		wr := provider.SendWR{Opcode: provider.OpSend, Flags: provider.SendSignaled}
		sum := uint64(0)
		for _, n := range tc.lengths {
			wr.SGList = append(wr.SGList, provider.SGE{Length: n})
			sum += uint64(n)
		}
		at, psn := s.at.slot, s.at.psn
		n, err := e.q.PostSend([]provider.SendWR{wr})
		if !errors.Is(err, tc.err) || (err == nil) != (n == 1) {
			t.Errorf("PostSend of %v = %d, %v, want %v", tc.lengths, n, err, tc.err)
		}
		if s.at.psn-psn != tc.packets {
			t.Errorf("packets of %v = %d, want %d", tc.lengths, s.at.psn-psn, tc.packets)
		}
		if err == nil {
			if got := load64(s.slotAt(at), wqeLength); got != sum {
				t.Errorf("length of the request = %d, want %d", got, sum)
			}
			e.dev.sendDone(0, int(s.at.index))
			e.poll(1)
		}
	}
}

// TestOtherFlags posts requests with flags that the adapter does not have, and that do not change the request.
func TestOtherFlags(t *testing.T) {
	for name, wr := range map[string]provider.SendWR{
		"one element":  {Opcode: provider.OpSend, SGList: make([]provider.SGE, 1)},
		"two elements": {Opcode: provider.OpSend, SGList: make([]provider.SGE, 2)},
		"inline":       {Opcode: provider.OpSend, InlineData: []byte{1}},
	} {
		e := newRig(t, chips["P7"]).connected(t, provider.QPCap{SendWR: 4, SendSGE: 2})
		var heads [2]uint32
		for i, flags := range []provider.SendFlags{provider.SendSignaled, provider.SendSignaled | ^provider.SendFlags(7)} {
			at := e.q.sq.at.slot
			wr.Flags = flags
			if n, err := e.q.PostSend([]provider.SendWR{wr}); n != 1 || err != nil {
				t.Fatalf("%s: PostSend = %d, %v, want 1, nil", name, n, err)
			}
			heads[i] = load32(e.q.sq.slotAt(at), 0)
		}
		if heads[1] != heads[0] {
			t.Errorf("%s: first word with other flags = %#x, want %#x", name, heads[1], heads[0])
		}
	}
}

// TestCompletionOfAnOpenBatch has the device complete a request that is built and not posted.
func TestCompletionOfAnOpenBatch(t *testing.T) {
	r := newRig(t, chips["P7"])
	e := r.connected(t, provider.QPCap{SendWR: 4})
	e.q.BatchBegin()
	if err := e.q.BatchAdd(&provider.SendWR{ID: 3, Opcode: provider.OpSend}); err != nil {
		t.Fatalf("QP.BatchAdd: %v", err)
	}
	e.dev.sendDone(0, 1)
	if got := e.poll(1); len(got) != 0 || e.c.skipped.Load() != 1 {
		t.Errorf("completions = %+v, %d skipped, want none and 1", got, e.c.skipped.Load())
	}
	e.q.BatchDiscard()
}

// TestPlaces makes and closes QPs, so that a place of the table is used again. A handle of an old QP finds none.
func TestPlaces(t *testing.T) {
	r := newRig(t, chips["P7"])
	var old []uint64
	for range 3 {
		e := r.connected(t, provider.QPCap{})
		if r.ctx.qps.find(e.q.cookie) != e.q || e.q.cookie == 0 || slices.Contains(old, e.q.cookie) {
			t.Errorf("table.find(%#x) does not return the QP, or the handle is not new", e.q.cookie)
		}
		for _, h := range append(old, 0, 1, maxQPs, 1<<63, e.q.cookie+1, e.q.cookie+1<<32) {
			if q := r.ctx.qps.find(h); q != nil {
				t.Errorf("table.find(%#x) = %p, want nil", h, q)
			}
		}
		old = append(old, e.q.cookie)
		if err := e.q.Close(); err != nil {
			t.Fatalf("QP.Close: %v", err)
		}
	}
	if n := r.ctx.qps.next; n != 1 {
		t.Errorf("used places = %d, want 1", n)
	}
	full := &table{next: maxQPs - 1}
	last, err := full.reserve()
	if err != nil || uint32(last) != maxQPs-1 {
		t.Fatalf("reserve of the last place = %#x, %v, want the place %#x", last, err, maxQPs-1)
	}
	q := &qp{cookie: last}
	if full.add(q); full.find(last) != q {
		t.Errorf("table.find(%#x) does not return the QP of the last place", last)
	}
	if _, err := full.reserve(); err == nil {
		t.Error("reserve of a full table succeeded, want an error")
	}
}
