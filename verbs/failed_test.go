// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"errors"
	"runtime"
	"testing"

	"purerdma/internal/bridge"
	"purerdma/test/connectx/inprocess"
	"purerdma/verbs"
)

// TestWatchOfAFailedQP has a device write a completion of no request. The provider fails the QP, and each
// Watch of the QP gets the cause, also a Watch that is added later. A reset of the QP removes the cause, and a Watch with
// UntilReset.
func TestWatchOfAFailedQP(t *testing.T) {
	ctx, rt := deadline(t), mlx5Route(t)
	l, r := rt.pair(t, verbs.QPCap{})
	causes := make(chan error, 4)
	watch := func() {
		internals.Watch(l.qp, bridge.Watch{Failed: func(cause error) { causes <- cause }})
	}
	next := func(name string) {
		t.Helper()
		select {
		case cause := <-causes:
			if invalid, ok := errors.AsType[*verbs.InvalidCompletionError](cause); !ok || invalid.QPNum != l.qp.Num() {
				t.Errorf("cause of %s = %v, want an invalid completion of %v", name, cause, l.qp)
			}
		case <-ctx.Done():
			t.Fatalf("Failed of %s was not called", name)
		}
	}
	fail := func() {
		t.Helper()
		if !rt.h.Kernel.(*inprocess.Kernel).Device(l.dev.Name()).WrongCompletion(l.qp.Num(), false) {
			t.Fatal("WrongCompletion() = false, want true")
		}
		if n, err := l.cq.Poll(make([]verbs.WC, 4)); n != 0 || err != nil {
			t.Errorf("CQ.Poll = %d, %v, want 0, nil", n, err)
		}
	}
	watch()
	fail()
	next("the first Watch")
	watch()
	next("a later Watch")
	for l.qp.State() != verbs.QPErr && ctx.Err() == nil {
		runtime.Gosched()
	}
	for _, e := range []*end{l, r} {
		modify(t, e.qp, verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
		modify(t, e.qp, verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState)
	}
	connect(t, l, r)
	watch()
	internals.Watch(l.qp, bridge.Watch{Failed: func(cause error) { causes <- cause }, UntilReset: true})
	for _, e := range []*end{l, r} {
		modify(t, e.qp, verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState)
	}
	connect(t, l, r)
	fail()
	for range 3 { // If the last Watch had been called before, there would be four calls.
		next("a QP that fails again")
	}
	select {
	case cause := <-causes:
		t.Errorf("further call of Failed with %v, want none", cause)
	default:
	}
}

// TestQueryFindsAFailure has a request fail on a device that sends no event. The Query that finds the error state calls
// each Watch of the QP, once. A later Watch is also called.
func TestQueryFindsAFailure(t *testing.T) {
	ctx := deadline(t)
	l, r := fakeRoute().pair(t, verbs.QPCap{})
	causes := make(chan error, 4)
	watch := func() { internals.Watch(l.qp, bridge.Watch{Failed: func(cause error) { causes <- cause }}) }
	watch()
	l.send(t, verbs.SendWR{Opcode: verbs.OpWrite, RemoteAddr: r.buf.Addr(), RKey: r.buf.RKey() + 1, SGList: []verbs.SGE{l.buf.Slice(0, 8)}})
	for range 2 {
		for a, err := l.qp.Query(); a.State != verbs.QPErr; a, err = l.qp.Query() {
			if err != nil || ctx.Err() != nil {
				t.Fatalf("Query() = %+v, %v, want the error state", a, err)
			}
		}
	}
	watch()
	for range 2 {
		select {
		case cause := <-causes:
			if cause != nil {
				t.Errorf("Failed(%v), want nil", cause)
			}
		case <-ctx.Done():
			t.Fatal("Failed was not called")
		}
	}
	if n := len(causes); n != 0 {
		t.Errorf("further calls of Failed = %d, want 0", n)
	}
}
