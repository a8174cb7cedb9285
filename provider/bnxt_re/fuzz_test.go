// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre

import (
	"math/rand/v2"
	"testing"

	"purerdma/provider"
)

// hostile is a device and a program that do with two QPs whatever data encodes. The device writes arbitrary entries,
// and the program posts, polls, resizes and resets.
type hostile struct {
	t      *testing.T
	data   []byte
	r      *rig
	ends   []*end
	srq    *srq
	next   uint64          // ID of the next request or receive
	posted map[uint64]bool // IDs that have not completed
}

// byte returns the next byte, 0 after the last.
func (h *hostile) byte() byte {
	if len(h.data) == 0 {
		return 0
	}
	b := h.data[0]
	h.data = h.data[1:]
	return b
}

func (h *hostile) word() uint32 {
	return uint32(h.byte()) | uint32(h.byte())<<8 | uint32(h.byte())<<16 | uint32(h.byte())<<24
}

// ids returns new IDs.
func (h *hostile) ids(n int) []uint64 {
	var out []uint64
	for range n {
		h.next++
		out = append(out, h.next)
	}
	return out
}

func (h *hostile) step() {
	e := h.ends[int(h.byte())%len(h.ends)]
	switch op := h.byte() % 12; op {
	case 0, 1, 2, 3, 4, 7:
		// The provider moves a QP to the error state on another goroutine, where the device also adds entries.
		h.r.mu.Lock()
		h.device(e, op)
		h.r.mu.Unlock()
	case 5:
		var wrs []provider.SendWR
		for _, id := range h.ids(int(h.byte()) % 5) {
			wr := provider.SendWR{ID: id, Opcode: provider.OpSend, InlineData: make([]byte, h.byte()%40)}
			if h.byte()%2 == 0 {
				wr.Flags = provider.SendSignaled
			}
			wrs = append(wrs, wr)
		}
		n, _ := e.q.PostSend(wrs)
		for _, w := range wrs[:n] {
			h.posted[w.ID] = true
		}
	case 6:
		var wrs []provider.RecvWR
		for _, id := range h.ids(int(h.byte()) % 5) {
			wrs = append(wrs, provider.RecvWR{ID: id, SGList: make([]provider.SGE, h.byte()%3)})
		}
		post := e.q.PostRecv
		if e.q.srq != nil {
			post = h.srq.PostRecv
		}
		n, _ := post(wrs)
		for _, w := range wrs[:n] {
			h.posted[w.ID] = true
		}
	case 8:
		if h.byte()%8 == 0 {
			e.move(provider.QPReset)
			e.ready()
		}
	case 9:
		if h.byte()%8 == 0 {
			if err := e.c.Resize(int(h.byte()) + 64); err != nil {
				h.t.Fatalf("CQ.Resize: %v", err)
			}
		}
	default:
		h.poll(e, int(h.byte())%9)
	}
}

// device has the device add an entry.
func (h *hostile) device(e *end, op byte) {
	switch op {
	case 0: // an entry with arbitrary bytes, which may have no phase bit
		b := e.dev.sendCQ.ring[e.dev.sendCQ.pi*cqeSize:][:cqeSize]
		for i := range b {
			b[i] = h.byte()
		}
	case 1, 2:
		e.dev.sendDone(h.byte()%4*h.byte(), int(h.byte())%8)
	case 3:
		e.dev.recvDone(h.byte()%4*h.byte(), uint16(h.byte()), h.word(), h.word(), uint32(h.byte())%8)
	case 4:
		e.dev.sendCQ.put(h.byte(), h.byte(), uint16(h.word()), [6]uint32{h.word(), h.word(), uint32(e.q.cookie), uint32(e.q.cookie >> 32), h.word()}, h.word())
	case 7:
		e.dev.terminate()
	}
}

// poll polls, and checks that each ID was posted and has not completed before.
func (h *hostile) poll(e *end, n int) int {
	got := e.poll(n)
	for _, w := range got {
		if !h.posted[w.ID] {
			h.t.Fatalf("completion = %+v, of a request that is not outstanding", w)
		}
		delete(h.posted, w.ID)
	}
	return len(got)
}

// run executes all steps. At the end it moves the QPs to the error state. Then no request may be outstanding that the
// device cannot have completed without a completion of its own.
func (h *hostile) run() {
	for len(h.data) > 0 {
		h.step()
	}
	for _, e := range h.ends {
		e.q.SetState(provider.QPErr)
		for range 10 {
			for h.poll(e, 9) > 0 {
			}
		}
		s, r := &e.q.sq, &e.q.rq
		if s.head != s.tail || r.head != r.tail {
			h.t.Errorf("outstanding after a flush: %d requests and %d receives, want none", s.head-s.tail, r.head-r.tail)
		}
	}
}

// FuzzCompletions has a device write arbitrary entries, on the generations of chips.
func FuzzCompletions(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, chip := range []string{"P4", "P7, no MSN"} {
			r := newRig(t, chips[chip])
			h := &hostile{t: t, data: data, r: r, posted: map[uint64]bool{}}
			s, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: 5, MaxSGE: 2, Dropped: func(id uint64) { delete(h.posted, id) }})
			if err != nil {
				t.Fatalf("Context.CreateSRQ: %v", err)
			}
			t.Cleanup(func() { s.Close() })
			h.srq = s.(*srq)
			h.ends = []*end{
				r.connected(t, provider.QPCap{SendWR: 5, RecvWR: 5, RecvSGE: 2, Inline: 40}),
				r.make(t, provider.QPConfig{SRQ: s, Cap: provider.QPCap{SendWR: 5, Inline: 40}}),
			}
			h.ends[1].ready()
			h.run()
		}
	})
}
