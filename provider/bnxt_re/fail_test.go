// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre

import (
	"context"
	"errors"
	"slices"
	"testing"

	"purerdma/provider"
)

// failureRig is a QP whose failures the test handles.
type failureRig struct {
	*end
	reports chan report
}

// report is one call of QPConfig.Failed.
type report struct {
	err    error
	fails  func() bool
	finish func() // lets the call return
}

func newFailureRig(t *testing.T) *failureRig {
	r := &failureRig{reports: make(chan report)}
	r.end = newRig(t, chips["P7"]).make(t, provider.QPConfig{Cap: provider.QPCap{SendWR: 8, RecvWR: 8}, Failed: func(err error, fails func() bool) {
		ctx, finish := context.WithCancel(context.Background())
		r.reports <- report{err, fails, finish}
		<-ctx.Done()
	}})
	r.ready()
	return r
}

// fail polls the completion of a request that was not posted, and returns the report. Failed has not returned.
func (r *failureRig) fail() report {
	r.t.Helper()
	r.dev.sendDone(0, 7)
	if wcs := r.poll(9); len(wcs) != 0 {
		r.t.Errorf("completions = %+v, want none", wcs)
	}
	return <-r.reports
}

// ended waits until the provider has moved the QP to ERR.
func (r *failureRig) ended() {
	r.t.Helper()
	eventually(r.t, "a move to ERR", func() bool { return r.q.State() == provider.QPErr })
}

// TestFailureIsReported checks that QPConfig.Failed gets the reason of a failure, without locks and before the outstanding
// requests complete.
func TestFailureIsReported(t *testing.T) {
	r := newFailureRig(t)
	r.send(1)
	failure := r.fail()
	invalid, ok := errors.AsType[*provider.InvalidCompletionError](failure.err)
	if want := (provider.InvalidCompletionError{QPNum: r.q.num, Reason: "completion of a request that was not posted"}); !ok || *invalid != want {
		t.Errorf("reported failure = %v, want %v", failure.err, &want)
	}
	if _, err := r.q.Query(); err != nil {
		t.Errorf("QP.Query during Failed: %v", err)
	}
	if wcs := r.poll(9); len(wcs) != 0 || r.q.State() != provider.QPRTS || !failure.fails() {
		t.Errorf("completions = %+v in state %v during Failed, fails() = %v, want none in RTS and true", wcs, r.q.State(), failure.fails())
	}
	failure.finish()
	r.ended()
	if got := ids(r.poll(9)); !slices.Equal(got, []uint64{1}) || failure.fails() {
		t.Errorf("flushed IDs = %v, fails() = %v, want 1 and false", got, failure.fails())
	}
}

// TestResetDuringReport resets a failing QP before Failed returns. Only a new failure moves the QP to ERR.
func TestResetDuringReport(t *testing.T) {
	r := newFailureRig(t)
	first := r.fail()
	if !first.fails() {
		t.Error("fails() of the first failure = false, want true before the reset")
	}
	if err := r.q.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); err != nil {
		t.Fatalf("QP.Modify to RESET: %v", err)
	}
	r.ready()
	second := r.fail()
	if first.fails() || !second.fails() {
		t.Errorf("fails() after the reset = %v, %v, want false, true", first.fails(), second.fails())
	}
	first.finish()
	if first.fails() || r.q.State() != provider.QPRTS {
		t.Errorf("fails() of the first failure = %v in state %v, want false in RTS", first.fails(), r.q.State())
	}
	second.finish()
	r.ended()
	if second.fails() {
		t.Error("fails() in ERR = true, want false")
	}
}

// TestOldFailureLeavesNewQueue lets the report of a failure return after a reset. The QP remains in RTS.
func TestOldFailureLeavesNewQueue(t *testing.T) {
	r := newFailureRig(t)
	failure := r.fail()
	if err := r.q.Modify(&provider.QPAttr{State: provider.QPReset}, provider.QPAttrState); err != nil {
		t.Fatalf("QP.Modify to RESET: %v", err)
	}
	r.ready()
	failure.finish()
	eventually(t, "the end of the failure", func() bool { return r.q.failure.Load() == 0 })
	if s := r.q.State(); s != provider.QPRTS {
		t.Errorf("QP.State() = %v, want RTS", s)
	}
}

// TestCloseDuringReport closes a failing QP before Failed returns.
func TestCloseDuringReport(t *testing.T) {
	r := newFailureRig(t)
	failure := r.fail()
	if err := r.q.Close(); err != nil {
		t.Errorf("QP.Close during Failed: %v", err)
	}
	if failure.fails() {
		t.Error("fails() after Close = true, want false")
	}
	failure.finish()
	eventually(t, "the end of the failure", func() bool { return r.q.failure.Load() == 0 })
	if wcs := r.poll(9); len(wcs) != 0 || r.rig.movedTo(provider.QPErr) {
		t.Errorf("completions after Close = %+v, moved to ERR %v, want none and no move", wcs, r.rig.movedTo(provider.QPErr))
	}
}
