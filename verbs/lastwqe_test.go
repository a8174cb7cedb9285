// SPDX-License-Identifier: Apache-2.0

//go:build linux

package verbs_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"purerdma/provider"
	"purerdma/provider/rxe"
	"purerdma/uverbs"
	"purerdma/verbs"
)

// closingDriver records how QPs are closed.
type closingDriver struct {
	rxe.Driver
	log     []string
	refuse  error // of moves to the error state
	reports bool  // provider.LastWQEReporter
}

// Open implements provider.Driver.
func (d *closingDriver) Open(f *uverbs.File) (provider.Context, error) {
	c, err := rxe.Driver{}.Open(f)
	return closingContext{c, d}, err
}

type closingContext struct {
	provider.Context
	d *closingDriver
}

func (c closingContext) CreateQP(cfg *provider.QPConfig) (provider.QP, error) {
	q, err := c.Context.CreateQP(cfg)
	return closingQP{q, c.d}, err
}

type closingQP struct {
	provider.QP
	d *closingDriver
}

func (q closingQP) ReportsLastWQE() bool { return q.d.reports }

func (q closingQP) Modify(a *provider.QPAttr, mask provider.QPAttrMask) error {
	if mask&provider.QPAttrState != 0 && a.State == provider.QPErr {
		q.d.log = append(q.d.log, "ERR")
		if q.d.refuse != nil {
			return q.d.refuse
		}
	}
	return q.QP.Modify(a, mask)
}

func (q closingQP) Close() error {
	q.d.log = append(q.d.log, "close")
	return q.QP.Close()
}

// TestCloseFlushesSRQ checks that a QP with an SRQ is moved to the error state before it is
// destroyed, if it may have a message in progress.
func TestCloseFlushesSRQ(t *testing.T) {
	for name, tc := range map[string]struct {
		state  verbs.QPState
		alone  bool // without an SRQ
		refuse error
		want   []string
	}{
		"RESET":   {state: verbs.QPReset, want: []string{"close"}},
		"INIT":    {state: verbs.QPInit, want: []string{"close"}},
		"RTR":     {state: verbs.QPRTR, want: []string{"ERR", "close"}},
		"RTS":     {state: verbs.QPRTS, want: []string{"ERR", "close"}},
		"ERR":     {state: verbs.QPErr, want: []string{"close"}},
		"refused": {state: verbs.QPRTS, refuse: syscall.EIO, want: []string{"ERR", "close"}},
		"no SRQ":  {state: verbs.QPRTS, alone: true, want: []string{"close"}},
	} {
		t.Run(name, func(t *testing.T) {
			rt, d := fakeRoute(), &closingDriver{}
			rt.h.Drivers = []provider.Driver{d}
			cfg := verbs.QPConfig{}
			if !tc.alone {
				_, pd := openPD(t, rt.h, rt.a.Device)
				srq, err := pd.CreateSRQ(verbs.SRQConfig{})
				if err != nil {
					t.Fatalf("PD.CreateSRQ: %v", err)
				}
				closer(t, srq)
				cfg.SRQ = srq
			}
			e := newEndWith(t, rt.h, rt.a, cfg)
			steps := []func(){func() { e.init(t) }, func() { e.rtr(t, e) }, func() { e.rts(t) }}
			for _, step := range steps[:min(int(tc.state), len(steps))] {
				step()
			}
			if tc.state == verbs.QPErr {
				modify(t, e.qp, verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
			}
			d.log, d.refuse = nil, tc.refuse
			if err := e.qp.Close(); err != nil {
				t.Fatalf("QP.Close: %v", err)
			}
			if !slices.Equal(d.log, tc.want) {
				t.Errorf("steps of Close = %v, want %v", d.log, tc.want)
			}
		})
	}
}

// lastWQEWait is the time that Close waits for the event QP_LAST_WQE_REACHED.
const lastWQEWait = 100 * time.Millisecond

// connectedSRQ returns a connected QP with an SRQ.
func connectedSRQ(t *testing.T, rt *route) *end {
	t.Helper()
	_, pd := openPD(t, rt.h, rt.a.Device)
	srq, err := pd.CreateSRQ(verbs.SRQConfig{})
	if err != nil {
		t.Fatalf("PD.CreateSRQ: %v", err)
	}
	closer(t, srq)
	e := newEndWith(t, rt.h, rt.a, verbs.QPConfig{SRQ: srq})
	connect(t, e, newEnd(t, rt.h, rt.b, verbs.QPCap{}))
	return e
}

// TestLastWQENeverComes closes a QP whose device does not send the event.
func TestLastWQENeverComes(t *testing.T) {
	rt := fakeRoute()
	rt.h.Drivers = []provider.Driver{&closingDriver{reports: true}}
	e := connectedSRQ(t, rt)
	start := time.Now()
	if err := e.qp.Close(); err != nil {
		t.Fatalf("QP.Close: %v", err)
	}
	if d := time.Since(start); d < lastWQEWait {
		t.Errorf("QP.Close took %v, want at least %v without the event", d, lastWQEWait)
	}
}

// TestLastWQE closes QPs whose device sends the event, during Close or earlier.
func TestLastWQE(t *testing.T) {
	rt := mlx5Route(t)
	for name, before := range map[string]func(e *end){
		"connected": func(*end) {},
		"failed":    func(e *end) { modify(t, e.qp, verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState) },
	} {
		fastest := time.Hour
		for range 5 {
			e := connectedSRQ(t, rt)
			before(e)
			start := time.Now()
			if err := e.qp.Close(); err != nil {
				t.Fatalf("%s: QP.Close: %v", name, err)
			}
			fastest = min(fastest, time.Since(start))
		}
		if fastest >= lastWQEWait {
			t.Errorf("%s: fastest QP.Close took %v, want less than %v", name, fastest, lastWQEWait)
		}
	}
}
