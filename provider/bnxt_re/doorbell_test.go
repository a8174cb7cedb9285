// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"purerdma/provider"
)

// register returns the first register.
func (r *rig) register() uint64 { return binary.LittleEndian.Uint64(r.pages[pageBells].Bytes()) }

// TestDoorbells compares the doorbells of each queue with the layout of the device (enum bnxt_re_db_mask of libbnxt_re).
func TestDoorbells(t *testing.T) {
	r := newRig(t, chips["P7"])
	e := r.connected(t, provider.QPCap{SendWR: 8, RecvWR: 8})
	num := uint64(e.q.num) << 32
	check := func(what string, want uint64) {
		t.Helper()
		if got := r.register(); got != want|1<<58 {
			t.Errorf("doorbell of %s = %#x, want %#x", what, got, want|1<<58)
		}
	}
	e.send(1) // of two slots
	check("a send", num|2)
	e.recv(2, 3)
	check("receives", 1<<60|num|2)
	cq := uint64(e.c.num) << 32
	for _, toggle := range []byte{0, 1, 2, 3, 0xff} {
		e.dev.sendCQ.toggle[0] = toggle
		for solicited, kind := range map[bool]uint64{false: 6, true: 5} {
			if err := e.c.Arm(solicited); err != nil {
				t.Fatalf("CQ.Arm: %v", err)
			}
			check("an armed CQ", kind<<60|cq|uint64(toggle&3)<<25)
		}
	}
	s, err := r.ctx.CreateSRQ(&provider.SRQConfig{PD: r.pd, MaxWR: 3, MaxSGE: 2})
	if err != nil {
		t.Fatalf("Context.CreateSRQ: %v", err)
	}
	d := r.device.srqs[s.Handle()]
	post := func(n int) {
		if got, err := s.PostRecv(make([]provider.RecvWR, n)); got != n || err != nil {
			t.Fatalf("SRQ.PostRecv of %d = %d, %v", n, got, err)
		}
	}
	srq := uint64(d.num) << 32
	post(1)
	check("receives of an SRQ", 2<<60|srq|1)
	if err := s.Modify(&provider.SRQAttr{Limit: 1}, provider.SRQAttrLimit); err != nil {
		t.Fatalf("SRQ.Modify: %v", err)
	}
	d.toggle[0] = 2
	post(1)
	check("a limit", 3<<60|srq|1|2<<25)
	if got := d.ring[:128]; got[0] != opReceive {
		t.Errorf("first receive = %x, want the operation %#x", got[:16], opReceive)
	}
	if err := s.Close(); err != nil {
		t.Errorf("SRQ.Close: %v", err)
	}
}

// TestPush posts requests with inline data on a device with a page for them. The request must be in the page, between
// the doorbells of its buffer.
func TestPush(t *testing.T) {
	for _, chip := range []string{"P5, push", "P7, push"} {
		r := newRig(t, chips[chip])
		first, e := r.connected(t, provider.QPCap{SendWR: 8, Inline: 96}), r.connected(t, provider.QPCap{SendWR: 300, Inline: 96})
		if first.q.sq.push == nil || e.q.sq.push == nil || first.q.sq.push.index == e.q.sq.push.index {
			t.Fatalf("%s: the QPs have no buffers of their own", chip)
		}
		page, at := r.pages[pagePush].Bytes(), e.q.sq.push.index
		if start, end := e.q.sq.push.start, e.q.sq.push.end; start != end^1<<60 {
			t.Errorf("%s: doorbells of the buffer = %#x and %#x, want types 0xc and 0xd of the same page", chip, start, end)
		}
		for i := range 700 {
			clear(page)
			clear(r.pages[pageBells].Bytes())
			data := bytes.Repeat([]byte{byte(i)}, i%97)
			slot := e.q.sq.at.slot
			wrs := []provider.SendWR{{Opcode: provider.OpSend}, {ID: 1, Opcode: provider.OpSend, Flags: provider.SendSignaled, InlineData: data}}
			if n, err := e.q.PostSend(wrs[1-i%2:]); n != 1+i%2 || err != nil {
				t.Fatalf("PostSend = %d, %v, want %d, nil", n, err, 1+i%2)
			}
			if i%2 == 1 {
				slot = e.q.sq.entry((e.q.sq.at.index + e.q.sq.entries - 1) % e.q.sq.entries).slot
			}
			n := (32 + len(data) + 15) &^ 15
			want := append([]byte(nil), e.dev.sq[slot*16:]...)
			want = append(want, e.dev.sq...)[:n]
			if got := page[at*256:]; !bytes.Equal(got[:n], want) || len(bytes.Trim(got[n:], "\x00")) > 0 || !bytes.Equal(want[32:][:len(data)], data) {
				t.Fatalf("%s: pushed request %d = %x, want %x", chip, i, got[:n+16], want)
			}
			bell := binary.LittleEndian.Uint64(r.pages[pageBells].Bytes()[(at+1)*8:])
			if end := uint64(0xd)<<60 | 1<<58 | uint64(e.q.num)<<32 | 0x100<<44 | 0x23<<24 | uint64(e.q.sq.bellIndex(&e.q.sq.at)); bell != end {
				t.Fatalf("%s: doorbell of the buffer = %#x, want %#x", chip, bell, end)
			}
			if r.register() != 0 {
				t.Fatalf("%s: doorbell = %#x behind a pushed request, want none", chip, r.register())
			}
			e.dev.sendDone(0, int(e.q.sq.at.index))
			if got := e.poll(2); len(got) != 1 || got[0].ID != 1 {
				t.Fatalf("%s: completions = %+v, want one of ID 1", chip, got)
			}
		}
		e.q.PostSend([]provider.SendWR{{Opcode: provider.OpSend, InlineData: []byte{1}}, {Opcode: provider.OpSend}})
		if r.register() == 0 {
			t.Errorf("%s: no doorbell for the request behind a pushed one", chip)
		}
	}
}

// TestPushBuffers makes more QPs than a page has buffers. A closed QP frees its buffer.
func TestPushBuffers(t *testing.T) {
	r := newRig(t, chips["P5, push"])
	var ends []*end
	for i := range 17 {
		e := r.connected(t, provider.QPCap{SendWR: 8, Inline: 96})
		if got := e.q.sq.push != nil; got != (i < 15) {
			t.Errorf("QP %d has a buffer = %v, want %v", i, got, i < 15)
		}
		ends = append(ends, e)
	}
	if err := ends[3].q.Close(); err != nil {
		t.Fatalf("QP.Close: %v", err)
	}
	if e := r.connected(t, provider.QPCap{SendWR: 8, Inline: 96}); e.q.sq.push == nil || e.q.sq.push.index != 4 {
		t.Errorf("buffer of a QP after a Close = %+v, want number 4", e.q.sq.push)
	}
	r = newRig(t, chip{num: 0x16d7, maxSGE: 6, push: true})
	if e := r.connected(t, provider.QPCap{Inline: 96}); e.q.sq.push != nil {
		t.Error("a QP of generation P4 has a buffer for pushed requests")
	}
	// Without the page requests are not pushed.
	r = &rig{kernel: newKernel(t, chips["P5, push"])}
	r.onPage = func(at *uint64, _ *uint32) { *at = 1 << 63 }
	if err := r.start(); err != nil {
		t.Fatalf("rig.start: %v", err)
	}
	r.onPage = nil
	t.Cleanup(func() { r.f.Close(); r.ctx.Close() })
	if e := r.connected(t, provider.QPCap{Inline: 96}); e.q.sq.push != nil {
		t.Error("a QP has a buffer without a page")
	}
}

// TestPacing rings doorbells while the device reports that its queue of doorbells is full.
func TestPacing(t *testing.T) {
	r := newRig(t, chips["P7, push"])
	e := r.connected(t, provider.QPCap{SendWR: 64, RecvWR: 64, Inline: 32})
	load, fifo := r.pages[pageLoad].Bytes(), r.pages[pageFIFO].Bytes()
	set := func(share, start, alarm, depth, room uint32) {
		for i, v := range []uint32{share, start, alarm, depth, 0x7fff0, 4, 0x5108} {
			binary.LittleEndian.PutUint32(load[4*i:], v)
		}
		binary.LittleEndian.PutUint32(fifo[0x108:], room<<4|0xf)
	}
	ring := func() time.Duration {
		begin := time.Now()
		e.send(1)
		if got := r.register(); uint32(got)&0xffffff != e.q.sq.at.slot {
			t.Errorf("doorbell = %#x, want the index %d", got, e.q.sq.at.slot)
		}
		return time.Since(begin)
	}
	set(1<<16, 100, 200, 1000, 900)
	if d := ring(); r.alarms != 0 || d > maxPacing/2 {
		t.Errorf("post with %d occupied entries took %v, with %d alarms, want no wait", 100, d, r.alarms)
	}
	set(1<<16, 100, 200, 1000, 800)
	if d := ring(); r.alarms != 0 || d < maxPacing {
		t.Errorf("post with %d occupied entries took %v, with %d alarms, want %v", 200, d, r.alarms, maxPacing)
	}
	set(1<<16, 100, 200, 1000, 799)
	if ring(); r.alarms == 0 {
		t.Error("no alarm with more occupied entries than the threshold")
	}
	alarms := r.alarms
	set(1<<16, 100, 0, 1000, 0)
	if ring(); r.alarms != alarms {
		t.Errorf("alarms = %d, want none without a threshold", r.alarms-alarms)
	}
	set(0, 100, 200, 1000, 0)
	if ring(); r.alarms != alarms {
		t.Errorf("alarms = %d, want none without pacing", r.alarms-alarms)
	}
	// A room that ends during the wait.
	set(1<<16, 100, 0, 1000, 0)
	go set(1<<16, 100, 0, 1000, 1000)
	ring()
	e.recv(1)
	if err := e.c.Arm(false); err != nil {
		t.Errorf("CQ.Arm: %v", err)
	}
}
