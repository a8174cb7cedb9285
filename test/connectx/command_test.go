// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"errors"
	"slices"
	"testing"

	"purerdma/test/connectx/prm"
)

// TestRefusals gives commands that firmware refuses, and looks for the status.
func TestRefusals(t *testing.T) {
	r := newRig(t)
	pd := r.object(prm.OpAllocPD)
	uar := r.object(prm.OpAllocUAR)
	e := r.eq(uar, 0)
	for _, tc := range []struct {
		what string
		err  error
		want prm.Status
	}{
		{"a PD that is not there", r.on(prm.OpDeallocPD, pd+1), prm.StatusBadResource},
		{"a UAR that is not there", r.on(prm.OpDeallocUAR, uar+1), prm.StatusBadResource},
		{"an EQ that is not there", r.on(prm.OpDestroyEQ, e.n+1), prm.StatusBadResource},
		{"an opcode that is not there", r.on(0xfff, 0), prm.StatusBadOp},
	} {
		if !errors.Is(tc.err, statusError(tc.want)) {
			t.Errorf("%s: %v, want %v", tc.what, tc.err, tc.want)
		}
	}
	for _, err := range []error{r.on(prm.OpDestroyEQ, e.n), r.on(prm.OpDeallocUAR, uar), r.on(prm.OpDeallocPD, pd)} {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestCommandLengths gives commands and answers that are too short.
func TestCommandLengths(t *testing.T) {
	r := newRig(t)
	in := make([]byte, 0x110)
	prm.HeaderIn.Opcode.Set(in, prm.OpCreateEQ)
	for n := range in {
		out := r.d.Exec(in[:n:n], 16)
		if s := prm.Status(prm.HeaderOut.Status.Get(out)); s != prm.StatusBadInputLength || len(out) != 16 {
			t.Fatalf("%d bytes: %v", n, s)
		}
	}
	in = in[:16]
	prm.HeaderIn.Opcode.Set(in, prm.OpQueryEQ)
	for _, n := range []int{-1, 0, 16, 0x10f, MaxCommand + 1} {
		if s := prm.Status(prm.HeaderOut.Status.Get(r.d.Exec(in, n))); s != prm.StatusBadOutputLen {
			t.Errorf("an answer of %d bytes: %v", n, s)
		}
	}
}

// TestNumbersComeBack allocates all pages, and then one again.
func TestNumbersComeBack(t *testing.T) {
	r := newRig(t)
	r.d.cfg.Trace = nil
	for range endUAR - firstUAR {
		r.object(prm.OpAllocUAR)
	}
	if _, err := r.command(prm.OpAllocUAR, 16, nil, nil); !errors.Is(err, statusError(prm.StatusNoResources)) {
		t.Errorf("one more than there are: %v", err)
	}
	if err := r.on(prm.OpDeallocUAR, 77); err != nil {
		t.Error(err)
	}
	if n := r.object(prm.OpAllocUAR); n != 77 {
		t.Errorf("page %d is not the one that is free", n)
	}
}

// TestEvents fills an event queue, takes the events, and looks at interrupts.
func TestEvents(t *testing.T) {
	r := newRig(t)
	uar := r.object(prm.OpAllocUAR)
	other := r.eq(uar, 5, prm.EventCQError)
	e := r.eq(uar, 3, prm.EventPortChange, prm.EventSQDrained)
	post := func() {
		r.d.fabric.lock()
		defer r.d.fabric.unlock()
		r.d.event(prm.EventPortChange, prm.PortActive, func(data []byte) { prm.EventPort.Set(data, 1) })
	}
	for range 40 {
		post()
		post()
		for i := range 2 {
			v := r.next(e)
			if v == nil || prm.EQE.Type.Get(v) != uint64(prm.EventPortChange) || prm.EQE.SubType.Get(v) != prm.PortActive || prm.EventPort.Get(prm.EQE.Data.Of(v)) != 1 {
				t.Fatalf("event %d is %x", i, v)
			}
		}
		if r.next(e) != nil || r.next(other) != nil {
			t.Fatal("events that nobody posted")
		}
		if !slices.Equal(r.vectors, []int{3}) {
			t.Fatalf("interrupts %v", r.vectors)
		}
		r.vectors = nil
		r.arm(e, true)
	}
	// Armed behind an event, the interrupt comes at once.
	post()
	post()
	r.next(e)
	r.vectors = nil
	r.arm(e, true)
	if !slices.Equal(r.vectors, []int{3}) {
		t.Errorf("armed too late, interrupts %v", r.vectors)
	}
	out := r.must(prm.OpQueryEQ, 16, nil, func(in []byte) { prm.EQNumber.Set(in, uint64(e.n)) })
	if c := prm.CreateEQIn.Context.Of(out); prm.EQC.ProducerCounter.Get(c) != 82 || prm.EQC.ConsumerCounter.Get(c) != 81 || prm.EQC.State.Get(c) != prm.EQStateFired {
		t.Errorf("QUERY_EQ says %x", c)
	}
}

// TestEventViolations misuses an event queue.
func TestEventViolations(t *testing.T) {
	r := newRig(t)
	uar := r.object(prm.OpAllocUAR)
	e := r.eq(uar, 3, prm.EventPortChange)
	check := func(what string) {
		t.Helper()
		if v := r.violated(); len(v) != 1 {
			t.Errorf("%s: violations %v", what, v)
		}
	}
	for range 16 {
		r.d.event(prm.EventPortChange, 0, func([]byte) {})
	}
	r.d.event(prm.EventPortChange, 0, func([]byte) {})
	check("an event too many")
	e.ci = 17
	r.arm(e, true)
	check("a consumer index ahead of the device")
	r.d.Ring(uar, RegisterEQ, []byte{99, 0, 0, 0})
	check("a doorbell of another EQ")
	r.d.Ring(uar+1, RegisterEQ, []byte{1, 0, 0, 0})
	check("a page that is not there")
	r.d.Ring(uar, 0x60, []byte{1, 0, 0, 0})
	check("a place without a register")
	_, err := r.command(prm.OpCreateEQ, 0x110, nil, func(in []byte) { prm.EQC.UARPage.Set(prm.CreateEQIn.Context.Of(in), uint64(uar)) })
	if !errors.Is(err, statusError(prm.StatusBadParam)) {
		t.Errorf("an EQ without pages: %v", err)
	}
	r.command(prm.OpCreateEQ, 0x110, nil, func(in []byte) { prm.CreateEQIn.Context.Of(in)[3] = 1 })
	check("a reserved bit")
}
