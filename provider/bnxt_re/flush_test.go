// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bnxtre

import (
	"slices"
	"testing"
	"time"

	"purerdma/provider"
)

// wantFlushed polls flushed completions of these IDs, in order.
func (e *end) wantFlushed(want ...uint64) {
	e.t.Helper()
	got := e.poll(len(want) + 1)
	for _, w := range got {
		if w.Status != provider.WCWRFlushErr || w.QPNum != e.q.num {
			e.t.Errorf("completion = %+v, want WCWRFlushErr of QP %#x", w, e.q.num)
		}
	}
	if !slices.Equal(ids(got), want) {
		e.t.Errorf("flushed IDs = %v, want %v", ids(got), want)
	}
}

// wantWake waits for a wake-up.
func (e *end) wantWake() {
	e.t.Helper()
	select {
	case <-e.wakes:
	case <-time.After(30 * time.Second):
		e.t.Fatal("the waiters of the CQ were not woken")
	}
}

// drainWakes removes the wake-ups until now.
func (e *end) drainWakes() {
	for len(e.wakes) > 0 {
		<-e.wakes
	}
}

// TestFlush stops a QP in each way. Each outstanding request must be flushed in order, also if it is posted later. The
// waiters must be woken.
func TestFlush(t *testing.T) {
	for name, stop := range map[string]func(e *end){
		"Modify":   func(e *end) { e.move(provider.QPErr) },
		"SetState": func(e *end) { e.q.SetState(provider.QPErr) },
		"entry":    func(e *end) { e.dev.terminate() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, chips["P7"])
			e := r.connected(t, provider.QPCap{SendWR: 8, RecvWR: 8})
			e.send(1, 2)
			e.recv(11)
			stop(e)
			if name == "entry" {
				e.poll(0)
				if got := e.poll(1); !slices.Equal(ids(got), []uint64{1}) {
					t.Errorf("flushed IDs = %v, want 1", ids(got))
				}
				e.wantWake()
				e.wantFlushed(2, 11)
			} else {
				e.wantWake()
				e.wantFlushed(1, 2, 11)
			}
			eventually(t, "the mark of a stopped QP", e.q.stopped.Load)
			e.drainWakes()
			e.send(3)
			e.wantWake()
			e.recv(12)
			e.wantWake()
			e.wantFlushed(3, 12)
			if got := e.poll(1); len(got) != 0 {
				t.Errorf("completions = %+v, want none", got)
			}
			if n := e.c.skipped.Load(); n != 0 {
				t.Errorf("%d skipped entries, want 0", n)
			}
			// A QP that is used again is not flushed.
			for _, s := range []provider.QPState{provider.QPReset, provider.QPInit, provider.QPRTR, provider.QPRTS} {
				e.move(s)
			}
			e.drainWakes()
			e.send(4)
			if got := e.poll(9); len(got) != 0 || len(e.wakes) != 0 {
				t.Errorf("completions after a reset = %+v, %d wakes, want none", got, len(e.wakes))
			}
		})
	}
}

// move moves the QP.
func (e *end) move(s provider.QPState) {
	e.t.Helper()
	if err := e.q.Modify(&provider.QPAttr{State: s}, provider.QPAttrState); err != nil {
		e.t.Fatalf("QP.Modify to %v: %v", s, err)
	}
}

// TestErrorFlushesOneQueue has the device complete a request with an error. Only the queue of the request is flushed
// before the entry that ends the QP.
func TestErrorFlushesOneQueue(t *testing.T) {
	for _, chip := range []string{"P4", "P7"} {
		r := newRig(t, chips[chip])
		e := r.connected(t, provider.QPCap{SendWR: 8, RecvWR: 8})
		if n, err := e.q.PostSend([]provider.SendWR{{ID: 1, Opcode: provider.OpSend}, {ID: 2, Opcode: provider.OpSend}}); n != 2 || err != nil {
			t.Fatalf("PostSend = %d, %v, want 2, nil", n, err)
		}
		e.send(3)
		e.recv(11)
		// The index of the request behind the second one, or the slot of the second one.
		e.dev.sendDone(8, 2)
		// The unsignaled request before the failed one has succeeded.
		got := e.poll(9)
		if !slices.Equal(ids(got), []uint64{2, 3}) || got[0].Status != provider.WCRemOpErr || got[0].VendorErr != 8 || got[1].Status != provider.WCWRFlushErr {
			t.Errorf("%s: completions = %+v, want a remote operation error of 2 and a flushed 3", chip, got)
		}
		e.dev.recvDone(3, 0, 5, 0, 0)
		if got := e.poll(9); len(got) != 1 || got[0].ID != 11 || got[0].Status != provider.WCLocProtErr || got[0].ByteLen != 0 {
			t.Errorf("%s: completions = %+v, want a protection error of 11", chip, got)
		}
		e.recv(12)
		e.wantFlushed(12)
	}
}

// TestUntakenReceive has the device report that it has not taken a receive. The provider flushes it with the others.
func TestUntakenReceive(t *testing.T) {
	r := newRig(t, chips["P5"])
	e := r.connected(t, provider.QPCap{SendWR: 8, RecvWR: 8})
	e.recv(11, 12)
	e.dev.recvDone(statusFlushed, 0, 5, 0, 0)
	if got := e.poll(9); len(got) != 0 {
		t.Errorf("completions = %+v, want none", got)
	}
	e.dev.terminate()
	e.wantFlushed(11, 12)
}

// TestLateEntries has the device complete requests that the provider has flushed. These entries are ignored.
func TestLateEntries(t *testing.T) {
	r := newRig(t, chips["P7"])
	e := r.connected(t, provider.QPCap{SendWR: 8, RecvWR: 8})
	e.send(1)
	e.recv(11)
	e.move(provider.QPErr)
	e.wantFlushed(1, 11)
	e.dev.sendDone(0, 1)
	e.dev.recvDone(0, 0, 5, 0, 0)
	if got := e.poll(9); len(got) != 0 || e.c.skipped.Load() != 0 {
		t.Errorf("completions = %+v, %d skipped, want none", got, e.c.skipped.Load())
	}
}

// TestReset resets and closes a QP with completions in its CQ. They must disappear, and other QPs' must stay.
func TestReset(t *testing.T) {
	for _, name := range []string{"reset", "close"} {
		r := newRig(t, chips["P7"])
		e := r.connected(t, provider.QPCap{SendWR: 8, RecvWR: 8})
		q, err := r.ctx.CreateQP(&provider.QPConfig{Type: provider.RC, PD: r.pd, SendCQ: e.c, RecvCQ: e.c, Cap: provider.QPCap{SendWR: 8, RecvWR: 8}})
		if err != nil {
			t.Fatalf("Context.CreateQP: %v", err)
		}
		other := &end{t: t, rig: r, q: q.(*qp), c: e.c, dev: r.device.qps[q.Handle()]}
		other.ready()
		other.dev.sendCQ, other.dev.recvCQ = e.dev.sendCQ, e.dev.recvCQ
		e.send(1)
		e.recv(11)
		other.send(2)
		e.dev.sendDone(0, 1)
		e.dev.recvDone(0, 0, 5, 0, 0)
		e.dev.terminate()
		other.dev.sendDone(0, 1)
		if name == "reset" {
			e.move(provider.QPReset)
		} else if err := e.q.Close(); err != nil {
			t.Fatalf("QP.Close: %v", err)
		}
		if got := e.poll(9); !slices.Equal(ids(got), []uint64{2}) || e.c.skipped.Load() != 0 {
			t.Errorf("%s: completed IDs = %v, %d skipped, want 2 and 0", name, ids(got), e.c.skipped.Load())
		}
		if err := other.q.Close(); err != nil {
			t.Errorf("QP.Close: %v", err)
		}
	}
}
