// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"testing"
	"time"

	"purerdma/verbs"
)

// TestNumberFreedEarly has the kernel assign the number of a QP to the next QP before the handlers of the CQs
// have the completions of the old one. CreateQP waits for that.
func TestNumberFreedEarly(t *testing.T) {
	rt := fakeRoute()
	rt.fake.ReuseNumbers = true
	e := newEnd(t, rt.h, rt.a, verbs.QPCap{})
	made := make(chan *verbs.QP, 1)
	create := func() {
		qp, err := e.pd.CreateQP(verbs.QPConfig{SendCQ: e.cq, RecvCQ: e.cq})
		if err != nil {
			t.Errorf("PD.CreateQP: %v", err)
		}
		made <- qp
	}
	polled := false
	handle(e.cq, &recorder{finish: func() {
		if polled {
			return
		}
		polled = true
		go create()
		select {
		case qp := <-made:
			t.Error("CreateQP returned while the CQ may have completions of an old QP with the same number")
			made <- qp
		case <-time.After(20 * time.Millisecond):
		}
	}})
	if err := e.qp.Close(); err != nil {
		t.Fatalf("QP.Close: %v", err)
	}
	qp := <-made
	if !polled || qp.Num() != e.qp.Num() {
		t.Errorf("the CQ was polled = %v, number of the next QP = %d, want true, %d: the test shows nothing", polled, qp.Num(), e.qp.Num())
	}
	if err := qp.Close(); err != nil {
		t.Errorf("QP.Close: %v", err)
	}
}
