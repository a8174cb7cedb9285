// SPDX-License-Identifier: Apache-2.0

package connectx

import (
	"errors"
	"slices"
	"testing"

	"purerdma/test/connectx/prm"
)

// TestRefusals issues invalid commands and checks the status.
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
			t.Errorf("%s = %v, want %v", tc.what, tc.err, tc.want)
		}
	}
	for _, err := range []error{r.on(prm.OpDestroyEQ, e.n), r.on(prm.OpDeallocUAR, uar), r.on(prm.OpDeallocPD, pd)} {
		if err != nil {
			t.Errorf("destroy: %v", err)
		}
	}
}

// TestCommandLengths issues commands and answers that are too short.
func TestCommandLengths(t *testing.T) {
	r := newRig(t)
	in := make([]byte, 0x110)
	prm.HeaderIn.Opcode.Set(in, prm.OpCreateEQ)
	for n := range in {
		out := r.d.Exec(in[:n:n], 16)
		if s := prm.Status(prm.HeaderOut.Status.Get(out)); s != prm.StatusBadInputLength || len(out) != 16 {
			t.Fatalf("Exec of %d bytes = %v, want BAD_INPUT_LENGTH", n, s)
		}
	}
	in = in[:16]
	prm.HeaderIn.Opcode.Set(in, prm.OpQueryEQ)
	for _, n := range []int{-1, 0, 16, 0x10f, MaxCommand + 1} {
		if s := prm.Status(prm.HeaderOut.Status.Get(r.d.Exec(in, n))); s != prm.StatusBadOutputLen {
			t.Errorf("Exec with an answer of %d bytes = %v, want BAD_OUTPUT_LENGTH", n, s)
		}
	}
}

// TestNumbersComeBack allocates all pages, and then one page again.
func TestNumbersComeBack(t *testing.T) {
	r := newRig(t)
	r.d.cfg.Trace = nil
	for range endUAR - firstUAR {
		r.object(prm.OpAllocUAR)
	}
	if _, err := r.command(prm.OpAllocUAR, 16, nil, nil); !errors.Is(err, statusError(prm.StatusNoResources)) {
		t.Errorf("ALLOC_UAR without free pages = %v, want NO_RESOURCES", err)
	}
	if err := r.on(prm.OpDeallocUAR, 77); err != nil {
		t.Errorf("r.on(OpDeallocUAR): %v", err)
	}
	if n := r.object(prm.OpAllocUAR); n != 77 {
		t.Errorf("ALLOC_UAR = %d, want the free page 77", n)
	}
}

// TestEvents fills an event queue, reads the events, and checks interrupts.
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
				t.Fatalf("event %d = %x, want a port change", i, v)
			}
		}
		if r.next(e) != nil || r.next(other) != nil {
			t.Fatal("read an event that was not posted")
		}
		if !slices.Equal(r.vectors, []int{3}) {
			t.Fatalf("interrupts = %v, want one of vector 3", r.vectors)
		}
		r.vectors = nil
		r.arm(e, true)
	}
	// If the queue is armed after an event, the interrupt is immediate.
	post()
	post()
	r.next(e)
	r.vectors = nil
	r.arm(e, true)
	if !slices.Equal(r.vectors, []int{3}) {
		t.Errorf("interrupts after arming late = %v, want one of vector 3", r.vectors)
	}
	out := r.must(prm.OpQueryEQ, 16, nil, func(in []byte) { prm.EQNumber.Set(in, uint64(e.n)) })
	if c := prm.CreateEQIn.Context.Of(out); prm.EQC.ProducerCounter.Get(c) != 82 || prm.EQC.ConsumerCounter.Get(c) != 81 || prm.EQC.State.Get(c) != prm.EQStateFired {
		t.Errorf("QUERY_EQ = %x, want counters 82 and 81, fired", c)
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
			t.Errorf("%s: violations = %v, want one", what, v)
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
		t.Errorf("CREATE_EQ without pages = %v, want BAD_PARAM", err)
	}
	r.command(prm.OpCreateEQ, 0x110, nil, func(in []byte) { prm.CreateEQIn.Context.Of(in)[3] = 1 })
	check("a reserved bit")
}
