// SPDX-License-Identifier: Apache-2.0

//go:build linux

package mlx5

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"purerdma/provider"
)

// failureRig is a CQ with a QP whose failures the test handles. The QP has posted two sends and two receives.
type failureRig struct {
	*skipRig
	reports chan report
}

// report is one call of QPConfig.Failed.
type report struct {
	err    error
	fails  func() bool
	finish func() // lets the call return
}

func newFailureRig(t *testing.T) *failureRig {
	r := &failureRig{skipRig: emptySkipRig(t, Driver{}, nil), reports: make(chan report)}
	r.q, _ = r.madeQP(provider.QPConfig{Failed: func(err error, fails func() bool) {
		ctx, finish := context.WithCancel(context.Background())
		r.reports <- report{err, fails, finish}
		<-ctx.Done()
	}})
	r.post(r.q)
	return r
}

// fail polls the completion of a receive that was not posted, and returns the report. Failed has not returned.
func (r *failureRig) fail() report {
	r.t.Helper()
	r.put(r.q.recvCQE(7))
	if wcs := r.poll(); len(wcs) != 0 {
		r.t.Errorf("completions = %+v, want none", wcs)
	}
	return <-r.reports
}

// TestFailureIsReported checks that QPConfig.Failed gets the reason of a failure, without locks and before
// the outstanding requests complete.
func TestFailureIsReported(t *testing.T) {
	r := newFailureRig(t)
	failure := r.fail()
	err := failure.err
	invalid, ok := errors.AsType[*provider.InvalidCompletionError](err)
	if want := (provider.InvalidCompletionError{QPNum: r.q.num, Reason: "completion of a receive that was not posted"}); !ok || *invalid != want {
		t.Errorf("reported failure = %v, want %v", err, &want)
	}
	if wc, ok := errors.AsType[*provider.WCError](err); !ok || wc.Status != provider.WCFatalErr || wc.QPNum != r.q.num {
		t.Errorf("reported failure wraps %v, want %v of QP %#x", wc, provider.WCFatalErr, r.q.num)
	}
	if _, err := r.q.Query(); err != nil {
		t.Errorf("QP.Query during Failed: %v", err)
	}
	if wcs := r.poll(); len(wcs) != 0 || r.q.State() != provider.QPRTS {
		t.Errorf("completions = %+v in state %v during Failed, want none in RTS", wcs, r.q.State())
	}
	failure.finish()
	r.ended(r.q)
}

// TestLostCompletionIsReported checks the reason if only a later completion shows that a completion is lost.
func TestLostCompletionIsReported(t *testing.T) {
	r := newFailureRig(t)
	r.put(r.fair.recvCQE(9)) // from now on the CQ looks for lost completions
	if wcs := r.poll(); len(wcs) != 0 {
		t.Errorf("completions = %+v, want none", wcs)
	}
	r.put(r.q.sendCQE(1, opcodeSend))
	if id, st := ids(t, r.q, r.pollSome()); len(id) == 0 || id[0] != 1 || st[0] != provider.WCFatalErr {
		t.Errorf("completions = %v, %v, want the lost one first", id, st)
	}
	failure := <-r.reports
	invalid, ok := errors.AsType[*provider.InvalidCompletionError](failure.err)
	if want := "no completion of an earlier request"; !ok || invalid.Reason != want {
		t.Errorf("reported failure = %v, want the reason %q", failure.err, want)
	}
	failure.finish()
	r.waitEnded(r.q)
}

// TestResetDuringReport resets a failing QP before Failed returns. The QP works until it fails again. Only the
// report of that failure lets the provider end the QP.
func TestResetDuringReport(t *testing.T) {
	r := newFailureRig(t)
	first := r.fail()
	if !first.fails() {
		t.Error("fails() of the first failure = false, want true before the reset")
	}
	r.reset(r.q)
	r.post(r.q)
	second := r.fail()
	if first.fails() || !second.fails() {
		t.Errorf("fails() after the reset = %v, %v, want false, true", first.fails(), second.fails())
	}
	first.finish()
	for range 1000 {
		runtime.Gosched()
	}
	if st := r.q.failure.Load(); st != qpFailing {
		t.Errorf("the QP has state %d of failures before the second call of Failed returned, want %d", st, qpFailing)
	}
	second.finish()
	r.ended(r.q)
}

// TestCloseDuringReport closes a failing QP before Failed returns.
func TestCloseDuringReport(t *testing.T) {
	r := newFailureRig(t)
	failure := r.fail()
	if err := r.q.Close(); err != nil {
		t.Errorf("QP.Close during Failed: %v", err)
	}
	failure.finish()
	if wcs := r.poll(); len(wcs) != 0 {
		t.Errorf("completions after Close = %+v, want none", wcs)
	}
}
