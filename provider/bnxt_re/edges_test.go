// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"purerdma/abi"
	"purerdma/provider"
	"purerdma/provider/internal/endian"
)

// TestInlineLimit posts the most inline data, and one byte more, at each place of the queue.
func TestInlineLimit(t *testing.T) {
	for name, chip := range chips {
		r := newRig(t, chip)
		for _, kind := range []provider.QPType{provider.RC, provider.UD} {
			e := r.make(t, provider.QPConfig{Type: kind, Cap: provider.QPCap{SendWR: 4, Inline: 64}})
			e.ready()
			most := int(e.q.sq.maxData)
			wr := provider.SendWR{Opcode: provider.OpSend, Flags: provider.SendSignaled, AH: &holder{&ah{num: 1}}}
			for i := range 300 {
				wr.InlineData = make([]byte, most+1)
				if n, err := e.q.PostSend([]provider.SendWR{wr}); n != 0 || !errors.Is(err, syscall.EINVAL) {
					t.Fatalf("%s: PostSend of %d inline bytes = %d, %v, want 0, EINVAL", name, most+1, n, err)
				}
				wr.InlineData = wr.InlineData[:most]
				if n, err := e.q.PostSend([]provider.SendWR{wr}); n != 1 || err != nil {
					t.Fatalf("%s: PostSend of %d inline bytes = %d, %v, want 1, nil", name, most, n, err)
				}
				e.dev.sendDone(0, (i+1)%e.dev.entries)
				if got := e.poll(2); len(got) != 1 || got[0].Status != provider.WCSuccess {
					t.Fatalf("%s: completions = %+v, want one", name, got)
				}
			}
		}
	}
}

// TestLimitedRing computes the size of a ring that the limit of the device cuts.
func TestLimitedRing(t *testing.T) {
	c := &caps{maxCQE: 100}
	if s := c.shape(90, false); s.depth != 101 || s.fits() != 100 || s.deferred {
		t.Errorf("shape(90, false) = %+v, which fits %d, want 101 entries, which fit 100", s, s.fits())
	}
	if s := c.shape(49, false); s.depth != 101 || s.fits() != 51 || !s.deferred {
		t.Errorf("shape(49, false) = %+v, which fits %d, want 101 entries, which fit 51", s, s.fits())
	}
}

// TestPages opens a device with each size of pages.
func TestPages(t *testing.T) {
	for _, n := range []int{4096, 16384, 65536} {
		r := abi.BnxtReUctxResp{PgSize: uint32(n), CQESz: cqeSize, MaxCQD: 64}
		if err := new(caps).fromContext(&r, n); err != nil {
			t.Errorf("fromContext with pages of %d bytes: %v", n, err)
		}
		if err := new(caps).fromContext(&r, 2*n); err == nil {
			t.Errorf("fromContext with pages of %d bytes in a process with pages of %d succeeded, want an error", n, 2*n)
		}
	}
}

// TestReceivedBytes counts the bytes of long messages and of datagrams, whose length has 14 bits.
func TestReceivedBytes(t *testing.T) {
	r := newRig(t, chips["P7"])
	for _, tc := range []struct {
		kind         provider.QPType
		length, want uint32
	}{{provider.RC, 1<<20 + 7, 1<<20 + 7}, {provider.UD, 0xabcd<<14 | 77, 77}} {
		e := r.make(t, provider.QPConfig{Type: tc.kind, Cap: provider.QPCap{RecvWR: 4}})
		e.ready()
		e.recv(1)
		e.dev.recvDone(0, 0, tc.length, 0, 0)
		if got := e.poll(2); len(got) != 1 || got[0].ByteLen != tc.want {
			t.Errorf("type %v: completions = %+v, want one of %d bytes", tc.kind, got, tc.want)
		}
		if got := e.c.Counts().Received; got.Bytes != uint64(tc.want) || got.Operations != 1 {
			t.Errorf("type %v: CQ.Counts().Received = %+v, want one message of %d bytes", tc.kind, got, tc.want)
		}
	}
}

// TestPurgeAroundTheEnd resets a QP whose completions are on both sides of the end of the ring.
func TestPurgeAroundTheEnd(t *testing.T) {
	r := newRig(t, chips["P7"])
	e := r.connected(t, provider.QPCap{SendWR: 300})
	sent := 0
	send := func(n int) {
		for range n {
			e.send(uint64(sent))
			sent++
			e.dev.sendDone(0, sent%e.dev.entries)
		}
	}
	depth := int(e.c.depth)
	for sent < depth-3 {
		send(1)
		e.poll(1)
	}
	send(6)
	if err := e.q.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); err != nil {
		t.Fatalf("QP.Modify: %v", err)
	}
	if got := e.poll(10); len(got) != 0 || e.c.skipped.Load() != 0 {
		t.Errorf("completions after a reset = %+v, %d skipped, want none", got, e.c.skipped.Load())
	}
	if e.c.head != 3 {
		t.Errorf("head = %d, want 3", e.c.head)
	}
}

// TestUsualCompletions polls runs of usual completions, with entries of another QP and of several requests between them.
func TestUsualCompletions(t *testing.T) {
	for _, chip := range []string{"P4", "P7"} {
		r := newRig(t, chips[chip])
		e := r.connected(t, provider.QPCap{SendWR: 300, RecvWR: 4})
		second, err := r.ctx.CreateQP(&provider.QPConfig{PD: r.pd, Type: provider.RC, SendCQ: e.c, RecvCQ: e.c, Cap: provider.QPCap{SendWR: 300}})
		if err != nil {
			t.Fatalf("Context.CreateQP: %v", err)
		}
		o := &end{t: t, rig: r, q: second.(*qp), c: e.c, dev: r.device.qps[second.Handle()]}
		o.ready()
		const received = 1 << 40
		sent := [2]int{}
		post := func(i int, flags provider.SendFlags, done bool) uint64 {
			end, id := []*end{e, o}[i], uint64(i)<<32|uint64(sent[i])
			if n, err := end.q.PostSend([]provider.SendWR{{ID: id, Opcode: provider.OpSend, Flags: flags}}); n != 1 || err != nil {
				t.Fatalf("PostSend = %d, %v, want 1, nil", n, err)
			}
			if sent[i]++; done {
				end.dev.sendDone(0, sent[i]%end.dev.entries)
			}
			return id
		}
		for round := range 200 {
			var want, got []uint64
			want = append(want, post(0, provider.SendSignaled, true), post(0, provider.SendSignaled, true))
			post(0, 0, true) // no completion
			want = append(want, post(0, provider.SendSignaled, true), post(1, provider.SendSignaled, true))
			want = append(want, post(0, provider.SendSignaled, false), post(0, provider.SendSignaled, true)) // one entry for both
			e.recv(received)
			e.dev.recvDone(0, 0, 5, 0, uint32(round%e.dev.recvs))
			want = append(want, received, post(0, provider.SendSignaled, true))
			for _, size := range []int{1 + round%3, 2, 1, 9} {
				wcs := e.poll(size)
				for i, w := range wcs {
					if num := []uint32{e.q.num, o.q.num}[w.ID>>32&1]; w.Status != provider.WCSuccess || w.QPNum != num || (w.ID == received) != (w.Opcode == provider.WCRecv) {
						t.Fatalf("%s: completion %d = %+v, want a success of QP %#x", chip, i, w, num)
					}
				}
				got = append(got, ids(wcs)...)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s: round %d: completions = %v, want %v", chip, round, got, want)
			}
		}
		if bad := e.c.skipped.Load(); bad != 0 {
			t.Errorf("%s: skipped entries = %d, want 0", chip, bad)
		}
		if want, got := uint64(200*8), e.c.Counts().Completions[provider.WCSuccess]; got != want {
			t.Errorf("%s: counted completions = %d, want %d", chip, got, want)
		}
		if err := second.Close(); err != nil {
			t.Errorf("QP.Close: %v", err)
		}
	}
}

// TestPast16Bits uses queues with more entries than a number of 16 bits has values. The entry of a request has 16 bits of
// its index.
func TestPast16Bits(t *testing.T) {
	for _, chip := range []string{"P4, any", "P7"} {
		r := &rig{kernel: newKernel(t, chips[chip])}
		r.onDevice = func(b *abi.UverbsExQueryDeviceResp) { b.Base.MaxQPWR = 70000 }
		if err := r.start(); err != nil {
			t.Fatalf("rig.start: %v", err)
		}
		t.Cleanup(func() {
			if err := errors.Join(r.f.Close(), r.ctx.Close()); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
		e := r.connected(t, provider.QPCap{SendWR: 66000, RecvWR: 66000})
		if e.q.sq.entries <= 1<<16 {
			t.Fatalf("%s: the queue has %d entries, want more than 65536", chip, e.q.sq.entries)
		}
		sends, recvs := make([]provider.SendWR, 1000), make([]provider.RecvWR, 1000)
		wcs := make([]provider.WC, 64)
		next := uint64(0)
		for round := range 2*int(e.q.sq.entries)/1000 + 2 {
			for i := range sends {
				sends[i] = provider.SendWR{ID: uint64(1000*round + i), Opcode: provider.OpSend, Flags: provider.SendSignaled}
				if round%2 == 0 && i%2 == 0 {
					sends[i].Flags = 0 // the entry of the next request completes both
				}
			}
			if n, err := e.q.PostSend(sends); n != 1000 || err != nil {
				t.Fatalf("PostSend = %d, %v, want 1000, nil", n, err)
			}
			if n, err := e.q.PostRecv(recvs); err != nil {
				if round < 66 || !errors.Is(err, provider.ErrFull) {
					t.Fatalf("PostRecv = %d, %v, want 1000, nil", n, err)
				}
			} else if got, want := endian.Little64(e.q.rq.ring.last)&0xffffff, uint64(1000*(round+1)%e.dev.recvs); got != want {
				t.Fatalf("index of receives in the doorbell = %d, want %d", got, want)
			}
			for i := range sends {
				if sends[i].Flags == 0 {
					continue
				}
				e.dev.sendDone(0, (1000*round+i+1)%e.dev.entries)
				n, err := e.c.Poll(wcs)
				if n != 1 || err != nil || wcs[0].ID != sends[i].ID || wcs[0].Status != provider.WCSuccess {
					t.Fatalf("%s: completion = %d, %+v, %v, want ID %d", chip, n, wcs[0], err, sends[i].ID)
				}
				next++
			}
		}
		if got := e.c.Counts().Completions[provider.WCSuccess]; got != next {
			t.Errorf("%s: counted completions = %d, want %d", chip, got, next)
		}

		e = r.connected(t, provider.QPCap{RecvWR: 66000})
		if n, err := e.q.PostRecv(make([]provider.RecvWR, 66000)); n != 66000 || err != nil {
			t.Errorf("%s: PostRecv = %d, %v, want 66000, nil", chip, n, err)
		}
		if got := e.q.Stats().Receives; got != 66000 {
			t.Errorf("%s: counted receives = %d, want 66000", chip, got)
		}
	}
}

// TestLimitedQueues makes the largest queues on a device whose queues have a power of two of entries. The limit of the
// device bounds their sizes, as in the kernel's driver.
func TestLimitedQueues(t *testing.T) {
	r := newRig(t, chips["P4"])
	e := r.connected(t, provider.QPCap{SendWR: maxWR, RecvWR: maxWR})
	if got, want := int(e.q.sq.entries), maxWR+129; got != want {
		t.Errorf("requests in the ring = %d, want %d", got, want)
	}
	if c := e.q.Cap(); c.SendWR != maxWR || c.RecvWR != maxWR {
		t.Errorf("QP.Cap() = %+v, want %d requests and receives", c, maxWR)
	}
	s, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: maxWR, MaxSGE: 1})
	if err != nil {
		t.Fatalf("Context.CreateSRQ: %v", err)
	}
	if got := s.Attr().MaxWR; got != maxWR {
		t.Errorf("SRQ.Attr().MaxWR = %d, want %d", got, maxWR)
	}
	if err := s.Close(); err != nil {
		t.Errorf("SRQ.Close: %v", err)
	}
}

// TestReceivedBytesOfAnOldRing counts the bytes of a message whose completion is in the ring before a resize.
func TestReceivedBytesOfAnOldRing(t *testing.T) {
	const length = 1<<20 + 7
	r := newRig(t, chips["P7"])
	e := r.connected(t, provider.QPCap{RecvWR: 4})
	e.recv(1)
	e.dev.recvDone(0, 0, length, 0, 0)
	if err := e.c.Resize(1000); err != nil {
		t.Fatalf("CQ.Resize: %v", err)
	}
	if got := e.poll(2); len(got) != 1 || got[0].ByteLen != length {
		t.Errorf("completions = %+v, want one of %d bytes", got, length)
	}
	if got := e.c.Counts().Received; got != (provider.Count{Operations: 1, Bytes: length}) {
		t.Errorf("CQ.Counts().Received = %+v, want one message of %d bytes", got, length)
	}
}
