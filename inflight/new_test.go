// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inflight_test

import (
	"errors"
	"syscall"
	"testing"

	"purerdma/inflight"
	"purerdma/verbs"
)

// TestSecondNew calls New again for a QP. It returns the same Queue, whose READs are bounded by the
// lowest MaxReads.
func TestSecondNew(t *testing.T) {
	for _, tc := range []struct{ first, second, want int }{{4, 2, 2}, {2, 4, 2}, {2, 0, 2}, {0, 3, 3}} {
		r := newRig(t, inflight.Config{MaxReads: tc.first}, verbs.QPConfig{})
		q, err := inflight.New(r.qp, inflight.Config{MaxReads: tc.second, SignalAll: true})
		if q != r.Queue || err != nil {
			t.Fatalf("second New() = %p, %v, want %p, nil", q, err, r.Queue)
		}
		var ops []inflight.Op
		for range 5 {
			p, err := r.Submit(&verbs.SendWR{Opcode: verbs.OpRead}, nil)
			if err != nil {
				t.Fatalf("Submit() = %v", err)
			}
			ops = append(ops, p)
		}
		if n := r.hw.waiting(); n != tc.want {
			t.Errorf("MaxReads %d, then %d: %d READs are posted, want %d", tc.first, tc.second, n, tc.want)
		}
		for len(ops) > 0 {
			n := r.hw.waiting()
			r.hw.complete(verbs.WCSuccess, r.hw.take(t, n)...)
			for _, p := range ops[:n] {
				wantErr(t, "the READ", p, nil)
			}
			ops = ops[n:]
		}
		release := heldPost(t, r)
		for n := range 3 {
			ops = append(ops, r.submit(t, n, nil))
		}
		ops = append(ops, release())
		wrs := r.hw.take(t, len(ops))
		for i := range wrs {
			if wrs[i].Flags&verbs.SendSignaled == 0 {
				t.Errorf("request %d of the second Config with SignalAll is not signaled", i)
			}
		}
		r.hw.complete(verbs.WCSuccess, wrs...)
		for _, p := range ops {
			wantErr(t, "the WRITE", p, nil)
		}
	}
}

// TestNewErrors calls New for QPs that it cannot serve.
func TestNewErrors(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	cq, err := r.dev.CreateCQ(verbs.CQConfig{NoEvents: true})
	if err != nil {
		t.Fatalf("CreateCQ() = %v", err)
	}
	qp, err := r.pd.CreateQP(verbs.QPConfig{SendCQ: cq, RecvCQ: cq})
	if err != nil {
		t.Fatalf("CreateQP() = %v", err)
	}
	for range 2 {
		_, err = inflight.New(qp, inflight.Config{})
		want := "make operation queue for " + qp.String() + ": the send CQ has no completion channel: invalid argument"
		op, ok := errors.AsType[*verbs.OpError](err)
		if !ok || op.Object != qp.String() || !errors.Is(err, syscall.EINVAL) || err.Error() != want {
			t.Errorf("New() = %v, want the OpError %q", err, want)
		}
	}
	if err := errors.Join(qp.Close(), cq.Close()); err != nil {
		t.Errorf("Close() = %v", err)
	}
}
