// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inflight_test

import (
	"errors"
	"testing"

	"purerdma/inflight"
	"purerdma/verbs"
)

// TestReset resets a QP with posted and pending operations. They fail as flushed, and do not succeed
// with an operation after the reset.
func TestReset(t *testing.T) {
	r := newRig(t, inflight.Config{MaxReads: 1}, verbs.QPConfig{})
	reset := func() {
		t.Helper()
		if err := r.qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState); err != nil {
			t.Fatalf("Modify(RESET) = %v", err)
		}
	}
	var ops []inflight.Op
	var h held
	for range 2 {
		p, err := r.Submit(&verbs.SendWR{Opcode: verbs.OpRead}, &h)
		if err != nil {
			t.Fatalf("Submit() of a READ = %v", err)
		}
		ops = append(ops, p)
	}
	waited := make(chan error, 1)
	leader := r.submit(t, 1, &h)
	go func() { waited <- leader.Wait(soon(t)) }()
	called := make(chan error, 1)
	if err := r.Go(soon(t), write(2), &h, func(err error) { called <- err }); err != nil {
		t.Fatalf("Go() = %v", err)
	}
	old := r.hw.take(t, 1)
	sleep()
	reset()
	for name, errs := range map[string]chan error{"Wait()": waited, "the function": called} {
		if err := early(errs); !flushed(err) {
			t.Errorf("%s: %v after a reset, want the status %q", name, err, verbs.WCWRFlushErr)
		}
	}
	after := r.submit(t, 3, &h)
	r.hw.complete(verbs.WCSuccess, append(old, r.hw.take(t, 1)...)...)
	wantErr(t, "the operation after the reset", after, nil)
	for _, p := range ops {
		wantStatus(t, "a READ before the reset", p, verbs.WCWRFlushErr)
	}
	if n := h.count(); n != 5 {
		t.Errorf("memory was freed %d times, want 5", n)
	}
}

// TestResetDuringPost resets a QP while requests are posted. Their operations fail as flushed.
func TestResetDuringPost(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	earlier := r.submit(t, 1, nil)
	release := heldPost(t, r)
	if err := r.qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState); err != nil {
		t.Fatalf("Modify(RESET) = %v", err)
	}
	wantStatus(t, "the operation before the post", earlier, verbs.WCWRFlushErr)
	wantStatus(t, "the posted operation", release(), verbs.WCWRFlushErr)
}

// flushed reports whether an error is of a flushed request.
func flushed(err error) bool {
	wc, ok := errors.AsType[*verbs.WCError](err)
	return ok && wc.Status == verbs.WCWRFlushErr
}
