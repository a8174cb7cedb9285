// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"slices"
	"sync"
	"testing"

	"purerdma/abi"
	"purerdma/verbs"
)

// srqLedger accounts for the receives of an SRQ, which are numbered in the order of the posts. The
// device takes them in that order.
type srqLedger struct {
	mu    sync.Mutex
	next  uint64
	taken uint64              // all receives below it were taken
	open  map[uint64]struct{} // posted, and neither completed nor dropped
	wrong []uint64            // completed or dropped, but not open
	drops int
}

// done records that a receive was completed.
func (l *srqLedger) done(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.open[id]; !ok {
		l.wrong = append(l.wrong, id)
	}
	delete(l.open, id)
	l.taken = max(l.taken, id+1)
}

func (l *srqLedger) dropped(id uint64) {
	l.done(id)
	l.mu.Lock()
	l.drops++
	l.mu.Unlock()
}

// fill posts receives until n are open.
func (l *srqLedger) fill(t *testing.T, srq *verbs.SRQ, n int, sge verbs.SGE) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.open) < n {
		if _, err := srq.PostRecv([]verbs.RecvWR{{ID: l.next, SGList: []verbs.SGE{sge}}}); err != nil {
			t.Fatalf("SRQ.PostRecv: %v", err)
		}
		l.open[l.next] = struct{}{}
		l.next++
	}
}

// lost removes the receives that are open although a later one was taken.
func (l *srqLedger) lost() (ids []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.open {
		if id < l.taken {
			ids = append(ids, id)
			delete(l.open, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// poll polls a CQ until it is empty.
func (l *srqLedger) poll(t *testing.T, cq *verbs.CQ) {
	t.Helper()
	wcs := make([]verbs.WC, 8)
	for {
		n, err := cq.Poll(wcs)
		if err != nil {
			t.Errorf("CQ.Poll: %v", err)
		}
		if n == 0 || err != nil {
			return
		}
		for _, wc := range wcs[:n] {
			l.done(wc.ID)
		}
	}
}

// TestVMSRQKills closes QPs of an SRQ in the middle of long messages, many times. Each receive that
// a QP has taken completes or is dropped. rxe loses the receive of the message in progress.
func TestVMSRQKills(t *testing.T) {
	fullRoutes(t, func(t *testing.T, rt *route) {
		const pairs, rounds, messages = 3, 20, 6
		dev, pd := openPD(t, rt.h, rt.b.Device)
		ledger := &srqLedger{open: map[uint64]struct{}{}}
		srq, err := pd.CreateSRQ(verbs.SRQConfig{MaxWR: 64, Dropped: ledger.dropped})
		if err != nil {
			t.Fatalf("PD.CreateSRQ: %v", err)
		}
		closer(t, srq)
		var bases [pairs][2]*end
		for i := range bases {
			bases[i] = [2]*end{newEnd(t, rt.h, rt.a, verbs.QPCap{}), newEndWith(t, rt.h, rt.b, verbs.QPConfig{SRQ: srq})}
		}
		pair := func(i int) (l, r *end) {
			t.Helper()
			ends := [2]end{*bases[i][0], *bases[i][1]}
			for k, cfg := range []verbs.QPConfig{{}, {SRQ: srq}} {
				e := &ends[k]
				cfg.SendCQ, cfg.RecvCQ = e.cq, e.cq
				if e.qp, err = e.pd.CreateQP(cfg); err != nil {
					t.Fatalf("PD.CreateQP: %v", err)
				}
				closer(t, e.qp)
			}
			connect(t, &ends[0], &ends[1])
			return &ends[0], &ends[1]
		}
		memory := bases[0][1].buf.SGE()
		kill := func(l, r *end, round, after int) {
			for range messages {
				if _, err := l.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, SGList: []verbs.SGE{l.buf.SGE()}}}); err != nil {
					t.Errorf("QP.PostSend: %v", err)
				}
			}
			wcs := make([]verbs.WC, 1)
			for range after {
				if _, err := r.cq.Wait(deadline(t), wcs); err != nil || wcs[0].Err() != nil {
					t.Errorf("CQ.Wait = %v with %+v, want success", err, wcs[0])
				}
				ledger.done(wcs[0].ID)
			}
			switch round % 3 {
			case 1:
				if err := r.qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState); err != nil {
					t.Errorf("QP.Modify: %v", err)
				}
				ledger.poll(t, r.cq)
			case 2:
				if err := l.qp.Close(); err != nil {
					t.Errorf("QP.Close: %v", err)
				}
			}
			if err := r.qp.Close(); err != nil {
				t.Errorf("QP.Close: %v", err)
			}
			ledger.poll(t, r.cq)
			if err := l.qp.Close(); err != nil {
				t.Errorf("QP.Close: %v", err)
			}
			if err := pollAll(l.cq); err != nil {
				t.Errorf("CQ.Poll: %v", err)
			}
		}
		lost := 0
		for round := range rounds {
			ledger.fill(t, srq, pairs*messages+messages, memory)
			var wait sync.WaitGroup
			for i := range pairs {
				l, r := pair(i)
				wait.Go(func() { kill(l, r, round, (round+i)%3) })
			}
			wait.Wait()
			// A message in the next receive shows that the device has taken all earlier ones.
			l, r := pair(0)
			l.send(t, verbs.SendWR{ID: 1, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{l.buf.Slice(0, 8)}})
			l.ok(t, 1)
			wcs := make([]verbs.WC, 1)
			if _, err := r.cq.Wait(deadline(t), wcs); err != nil || wcs[0].Err() != nil {
				t.Fatalf("CQ.Wait = %v with %+v, want success", err, wcs[0])
			}
			ledger.done(wcs[0].ID)
			for _, e := range []*end{r, l} {
				if err := e.qp.Close(); err != nil {
					t.Fatalf("QP.Close: %v", err)
				}
			}
			ids := ledger.lost()
			lost += len(ids)
			if len(ids) > pairs {
				t.Errorf("round %d: lost receives = %v, want at most one for each of %d QPs", round, ids, pairs)
			}
		}
		t.Logf("of %d receives %d were dropped and %d lost, by %d closed QPs", ledger.taken, ledger.drops, lost, pairs*rounds)
		if len(ledger.wrong) > 0 {
			t.Errorf("receives %v completed or were dropped twice", ledger.wrong)
		}
		if lost > 0 && dev.DriverID() != abi.RDMA_DRIVER_RXE {
			t.Errorf("lost receives = %d, want 0", lost)
		}
	})
}

// pollAll polls a CQ until it is empty.
func pollAll(cq *verbs.CQ) error {
	wcs := make([]verbs.WC, 8)
	for {
		if n, err := cq.Poll(wcs); n == 0 || err != nil {
			return err
		}
	}
}
