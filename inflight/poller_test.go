// SPDX-License-Identifier: Apache-2.0

//go:build linux

package inflight_test

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"purerdma/inflight"
	"purerdma/verbs"
)

// TestPoller makes QPs until they need several CQs. Each CQ has room for the requests of its QPs, and
// takes others when they were closed.
func TestPoller(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	p, err := inflight.NewPoller(r.dev, inflight.PollerConfig{CQEntries: 1024})
	if err != nil {
		t.Fatalf("NewPoller() = %v", err)
	}
	cfg := verbs.QPConfig{Cap: verbs.QPCap{SendWR: 128, RecvWR: 128}}
	var qps []*verbs.QP
	users := func() map[*verbs.CQ]int {
		need := map[*verbs.CQ]int{}
		for _, qp := range qps {
			if qp.SendCQ() != qp.RecvCQ() {
				t.Errorf("CQs of %v differ", qp)
			}
			need[qp.SendCQ()] += qp.Cap().SendWR + qp.Cap().RecvWR
		}
		return need
	}
	create := func() {
		qp, err := p.CreateQP(r.pd, cfg)
		if err != nil {
			t.Fatalf("CreateQP() = %v", err)
		}
		qps = append(qps, qp)
	}
	for range 10 {
		create()
	}
	all := users()
	if len(all) < 2 || len(all) > 10 {
		t.Errorf("10 QPs are on %d CQs, want several QPs on each", len(all))
	}
	for cq, need := range all {
		if need > cq.Entries() {
			t.Errorf("a CQ of %d entries has QPs with %d requests", cq.Entries(), need)
		}
		if cq.Channel() != qps[0].SendCQ().Channel() {
			t.Error("the CQs have several channels, want one")
		}
	}
	for range 100 {
		if err := qps[0].Close(); err != nil {
			t.Fatalf("QP.Close() = %v", err)
		}
		qps = qps[1:]
		create()
	}
	for end := time.Now().Add(10 * time.Second); len(users()) > len(all)+1; { // the room comes back soon
		if time.Now().After(end) {
			t.Errorf("10 QPs are on %d CQs after others were closed, want about %d", len(users()), len(all))
			break
		}
		time.Sleep(time.Millisecond)
		qps[0].Close()
		qps = qps[1:]
		create()
	}

	if _, err := p.CreateQP(r.pd, verbs.QPConfig{Cap: verbs.QPCap{SendWR: 2000}}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("CreateQP() with more requests than a CQ takes = %v, want EINVAL", err)
	}
	if _, err := p.CreateQP(r.pd, verbs.QPConfig{SendCQ: r.qp.SendCQ()}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("CreateQP() with a CQ = %v, want EINVAL", err)
	}
	if _, err := inflight.NewPoller(r.dev, inflight.PollerConfig{CQEntries: -1}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("NewPoller(-1) = %v, want EINVAL", err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("Poller.Close() = %v", err)
	}
	if _, err := p.CreateQP(r.pd, cfg); !errors.Is(err, net.ErrClosed) {
		t.Errorf("CreateQP() after Close = %v, want net.ErrClosed", err)
	}
	for _, qp := range qps {
		if err := qp.Close(); err != nil {
			t.Errorf("QP.Close() = %v", err)
		}
	}
}

// TestPollerSRQ counts the receives of an SRQ once on each CQ.
func TestPollerSRQ(t *testing.T) {
	_, rigs := sharedRig(t, inflight.ReceiveConfig{Size: 256, Depth: 128})
	cq := rigs[0].qp.SendCQ()
	need := 128 + rigs[0].qp.Cap().SendWR + rigs[1].qp.Cap().SendWR
	if rigs[1].qp.SendCQ() != cq || cq.Entries() < need {
		t.Errorf("two QPs on one SRQ have CQs %p and %p, want one with at least %d entries", cq, rigs[1].qp.SendCQ(), need)
	}
}

// TestPollerManyOnSRQ makes QPs on an SRQ that need more than a CQ. Only one of the CQs has room for the
// receives.
func TestPollerManyOnSRQ(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	const entries, depth, sends, qps = 1023, 511, 63, 20
	p, err := inflight.NewPoller(r.dev, inflight.PollerConfig{CQEntries: entries})
	if err != nil {
		t.Fatalf("NewPoller() = %v", err)
	}
	defer p.Close()
	srq, err := r.pd.CreateSRQ(verbs.SRQConfig{MaxWR: depth, MaxSGE: 1})
	if err != nil {
		t.Fatalf("CreateSRQ() = %v", err)
	}
	defer srq.Close()
	seen := map[*verbs.CQ]bool{}
	for round := range 20 { // the QPs of a round take the room that those before had
		var open []*verbs.QP
		need := map[*verbs.CQ]int{}
		for range qps {
			qp, err := p.CreateQP(r.pd, verbs.QPConfig{SRQ: srq, Cap: verbs.QPCap{SendWR: sends}})
			if err != nil {
				t.Fatalf("CreateQP() = %v", err)
			}
			open = append(open, qp)
			if qp.RecvCQ() != open[0].RecvCQ() {
				t.Error("receives of an SRQ complete on several CQs, want one")
			}
			need[qp.SendCQ()] += qp.Cap().SendWR
		}
		need[open[0].RecvCQ()] += srq.Attr().MaxWR
		for cq, n := range need {
			seen[cq] = true
			if n > cq.Entries() {
				t.Errorf("a CQ of %d entries has %d requests", cq.Entries(), n)
			}
		}
		if round == 0 && len(need) != 2 {
			t.Errorf("%d QPs are on %d CQs, want 2", qps, len(need))
		}
		for _, qp := range open {
			if err := qp.Close(); err != nil {
				t.Errorf("QP.Close() = %v", err)
			}
		}
	}
	if len(seen) > 3 { // the room may come back late
		t.Errorf("20 rounds of QPs were on %d CQs, want 2", len(seen))
	}
}

// TestPollerLargeSRQ has an SRQ with as many receives as a CQ takes.
func TestPollerLargeSRQ(t *testing.T) {
	r := newRig(t, inflight.Config{}, verbs.QPConfig{})
	for depth, fits := range map[int]bool{1023: true, 1024: false} {
		p, err := inflight.NewPoller(r.dev, inflight.PollerConfig{CQEntries: 1023})
		if err != nil {
			t.Fatalf("NewPoller() = %v", err)
		}
		srq, err := r.pd.CreateSRQ(verbs.SRQConfig{MaxWR: depth, MaxSGE: 1})
		if err != nil {
			t.Fatalf("CreateSRQ() = %v", err)
		}
		qp, err := p.CreateQP(r.pd, verbs.QPConfig{SRQ: srq, Cap: verbs.QPCap{SendWR: 10}})
		if !fits {
			if !errors.Is(err, syscall.EINVAL) {
				t.Errorf("CreateQP() with an SRQ of %d receives = %v, want EINVAL", depth, err)
			}
		} else if err != nil {
			t.Errorf("CreateQP() with an SRQ of %d receives = %v", depth, err)
		} else if err := qp.Close(); err != nil {
			t.Errorf("QP.Close() = %v", err)
		}
		if err := errors.Join(p.Close(), srq.Close()); err != nil {
			t.Errorf("Close() = %v", err)
		}
	}
}
